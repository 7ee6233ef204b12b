import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readDocument } from "./read.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-read-"));
afterAll(() => rmSync(folder, { recursive: true }));

const file = (name: string, content: string | Uint8Array): string => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};

describe("readDocument", () => {
  it("reads a file, byte order mark or not, up to its limit", async () => {
    expect((await readDocument(file("a", "\ufeffa: 1"), { maxBytes: 7 })).value).toEqual({ a: 1 });
    await expect(readDocument(file("b", "a: 12345"), { maxBytes: 7 })).rejects.toMatchObject({
      code: "DOCUMENT_TOO_BIG",
      message: `${join(folder, "b")} is larger than 7 bytes, the limit for this kind of file`,
    });
  });

  it("says what is wrong with a file that can't be read", async () => {
    const missing = join(folder, "missing");
    await expect(readDocument(missing, { maxBytes: 9 })).rejects.toMatchObject({
      code: "DOCUMENT_MISSING",
      message: `${missing} does not exist`,
    });
    const typed = join(folder, "endpionts.yaml");
    file("endpoints.yaml", "");
    file("endpionts.json", "");
    await expect(readDocument(typed, { maxBytes: 9 })).rejects.toMatchObject({
      message: `${typed} does not exist; did you mean ${join(folder, "endpoints.yaml")}?`,
    });
    await expect(readDocument(folder, { maxBytes: 9 })).rejects.toMatchObject({
      code: "DOCUMENT_UNREADABLE",
      message: `${folder} is a directory, not a file`,
    });
    await expect(readDocument(file("c", Uint8Array.of(0x61, 0xff)), { maxBytes: 9 })).rejects.toMatchObject({
      code: "DOCUMENT_ENCODING",
    });
  });

  it("names the file in syntax errors", async () => {
    const path = file("d", "a: [\n");
    await expect(readDocument(path, { maxBytes: 99 })).rejects.toThrow(`${path}:`);
  });
});
