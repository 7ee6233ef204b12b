import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { guardedApp } from "./access.ts";
import { type Page, pageRoutes } from "./page-files.ts";

/** Asks for a file of the documentation. @returns status and text of the answer, and what was logged */
async function docs(path: string, pages: () => Promise<Page>): Promise<[number, string, unknown[]]> {
  const logged: unknown[] = [];
  const app = guardedApp(
    () => undefined,
    () => "",
    (error) => void logged.push(error),
  );
  pageRoutes(app, pages);
  // The check of the access asks for the address of the peer.
  const answer = await app.request(path, {}, { incoming: { socket: { remoteAddress: "127.0.0.1" } } });
  return [answer.status, await answer.text(), logged];
}

it("tells a documentation that cannot be built or read from a page that it does not have", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-docs-"));
  try {
    await mkdir(join(folder, "docs", "folder.html"), { recursive: true });
    await writeFile(join(folder, "docs", "index.html"), "<p>hello");
    const built = () => Promise.resolve({ folder, files: new Map() });
    const fault = new Error("the build ended with 1");
    const broken = () => Promise.reject(fault);
    expect(await docs("/docs/index.html", built)).toEqual([200, "<p>hello", []]);
    const missing = [404, "the documentation has no such page; /docs/index.html lists all pages\n", []];
    expect(await docs("/docs/none.html", built)).toEqual(missing);
    expect(await docs("/docs/etc/passwd", broken)).toEqual(missing);
    expect(await docs("/docs/index.html", broken)).toEqual([500, '{"error":"the build ended with 1"}', [fault]]);
    const [status, , logged] = await docs("/docs/folder.html", built);
    expect([status, logged]).toEqual([500, [expect.objectContaining({ code: "EISDIR" })]]);
  } finally {
    await rm(folder, { recursive: true });
  }
});
