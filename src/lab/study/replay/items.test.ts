import { describe, expect, it } from "vitest";
import { savedText } from "../../../../test/support/study/replay/recorded.cases.ts";
import { type Item, ItemFile } from "./items.ts";

async function read(text: string | Buffer, limits?: { file: number; document: number }) {
  const file = new ItemFile(savedText(text), limits);
  const items: Item[] = [];
  for await (const item of file.read()) items.push(item);
  return { file, items };
}

describe("a file of recordings", () => {
  it("gives JSON lines and lines of logs, and passes over what is empty or a comment", async () => {
    const { items, file } = await read('{"a":1}\n\n# no\nplain text\n[2026-01-01T00:00:00Z] "x"\n{"b":\n');
    expect(items.map(({ place, kind }) => [place, kind])).toEqual([
      ["line 1", "value"],
      ["line 4", "text"],
      ["line 5", "broken"],
      ["line 6", "broken"],
    ]);
    expect(file).toMatchObject({ items: 4, cut: false });
  });

  it("gives each line of one that begins like a document and is none", async () => {
    const { items } = await read('{"begin\n{"a":1}\nplain\n');
    expect(items.map(({ place, kind }) => [place, kind])).toEqual([
      ["line 1", "broken"],
      ["line 2", "value"],
      ["line 3", "text"],
    ]);
  });

  it("gives up on one document where that gets too large, and goes on line by line (bound)", async () => {
    const rest = Array.from({ length: 50 }, (_, at) => JSON.stringify({ at }));
    const { items } = await read(`{"begin\n${rest.join("\n")}`, { file: 1e6, document: 100 });
    expect(items.map(({ kind }) => kind)).toEqual(["broken", ...rest.map(() => "value")]);
    expect(items.at(-1)).toMatchObject({ place: "line 51", value: { at: 49 } });
  });

  it("is read no further than its bound, which it tells, and not in the middle of a line (bound)", async () => {
    const lines = Array.from({ length: 30_000 }, (_, at) => `{"at":${10_000 + at}}\n`).join("");
    const { items, file } = await read(lines, { file: 200_000, document: 100 });
    // 13 bytes a line.
    expect(items).toHaveLength(Math.floor(200_000 / 13));
    expect(items.every(({ kind }) => kind === "value")).toBe(true);
    expect(file).toMatchObject({ cut: true, bytes: 200_000, items: items.length });
    expect((await read(lines, { file: lines.length, document: 100 })).file).toMatchObject({
      cut: false,
      items: 30_000,
    });
  });

  it("names what is not a text", async () => {
    const { items } = await read(Buffer.from([0x7b, 0xff, 0x0a, 0x7b, 0x7d, 0x0a]));
    expect(items).toMatchObject([
      { kind: "broken", problem: "not UTF-8" },
      { kind: "value", value: {} },
    ]);
  });
});
