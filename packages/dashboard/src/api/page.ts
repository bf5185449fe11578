// Where the page is mounted.
// Owns: reading the base from the page.

const given = document.querySelector<HTMLMetaElement>('meta[name="holdfast-base"]')?.content ?? "/";

/** The path that all pages and the API are below; it begins and ends with a slash. */
export const base = given.endsWith("/") ? given : `${given}/`;
export const apiBase = `${base}api/v1/`;
/** Of everything that tabs of this console share in the browser. */
export const storageName = `holdfast:${base}`;
