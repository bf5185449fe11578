// The page: the files of the built dashboard.
// Owns: where they are, and how the page learns its base path.
// Invariants: only files that the folder had when it was first read are served, so that no path leads out of it; every URL in the page is
// an absolute path under the base.

import { readdir, readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SAFE } from "./replies.ts";

/** Of this package, from its sources and from its build alike. */
const BUILT = fileURLToPath(new URL("../../dist/dashboard/", import.meta.url));

const MEDIA: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/x-icon",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json; charset=utf-8",
  ".map": "application/json; charset=utf-8",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".webmanifest": "application/manifest+json",
  ".woff2": "font/woff2",
};
/** Names with a hash in them never change. */
const HASHED = /^assets\/.*-[A-Za-z0-9_-]{8,}\.\w+$/;

interface File {
  readonly media: string;
  readonly body: Buffer;
}

export class Assets {
  readonly #folder: string;
  readonly #base: string;
  #files: Promise<ReadonlyMap<string, File>> | undefined;

  constructor(base: string, folder: string = BUILT) {
    this.#base = base;
    this.#folder = folder;
  }
  /** `path`: below the base, as it came. A path that is not a file is a view of the page. */
  async serve(method: string, path: string): Promise<Response> {
    if (method !== "GET" && method !== "HEAD") return plain(405, "Method not allowed.", { allow: "GET, HEAD" });
    this.#files ??= this.#read();
    const files = await this.#files;
    const file = path === "" ? undefined : files.get(path);
    if (file !== undefined && path !== "index.html") {
      const caching = HASHED.test(path) ? "public, max-age=31536000, immutable" : "no-cache";
      return reply(method, file, caching);
    }
    if (path.startsWith("assets/")) return plain(404, "Not found.");
    const page = files.get("index.html");
    if (page !== undefined) return reply(method, page, "no-cache");
    return plain(503, "The dashboard is not built. Run `npm run build`; the API is at api/v1/.");
  }
  async #read(): Promise<ReadonlyMap<string, File>> {
    const files = new Map<string, File>();
    for (const name of await namesIn(this.#folder)) {
      const body = await readFile(join(this.#folder, name));
      files.set(name, { media: MEDIA[extname(name)] ?? "application/octet-stream", body: name === "index.html" ? this.#page(body) : body });
    }
    if (files.size === 0) this.#files = undefined; // It may be built while the server runs.
    return files;
  }
  #page(html: Buffer): Buffer {
    const base = this.#base.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
    const meta = `<meta name="holdfast-base" content="${base}">`;
    const text = html
      .toString("utf8")
      .replace(/<meta\s+name="holdfast-base"[^>]*>/i, "")
      .replace(/<head(\s[^>]*)?>/i, (head) => `${head}${meta}`)
      // Root-relative and relative URLs, but not "//host" and not "scheme:".
      .replace(/\b(src|href)="(?:\.?\/)(?!\/)/g, (_, name: string) => `${name}="${base}`);
    return Buffer.from(text, "utf8");
  }
}

function reply(method: string, { media, body }: File, caching: string): Response {
  const headers = { ...SAFE, "content-type": media, "cache-control": caching, "content-length": String(body.byteLength) };
  return new Response(method === "HEAD" ? null : new Uint8Array(body), { headers });
}
function plain(status: number, text: string, more: Readonly<Record<string, string>> = {}): Response {
  return new Response(`${text}\n`, {
    status,
    headers: { ...SAFE, ...more, "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" },
  });
}

/** Folder by folder: where Yarn keeps packages in archives, entries of a recursive list have no usable `parentPath`. */
async function namesIn(folder: string, prefix = ""): Promise<string[]> {
  const entries = await readdir(join(folder, prefix), { withFileTypes: true }).catch(() => []);
  const names = entries.map((entry) => {
    const name = `${prefix}${entry.name}`;
    if (entry.isDirectory()) return namesIn(folder, `${name}/`);
    return entry.isFile() ? [name] : [];
  });
  return (await Promise.all(names)).flat();
}
