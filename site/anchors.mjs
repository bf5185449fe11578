// The anchors of headings, as GitHub makes them: links between pages work there and on the site.

/** @param {string} heading its text, without Markdown */
export function anchorOf(heading) {
  return heading
    .toLowerCase()
    .trim()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}
