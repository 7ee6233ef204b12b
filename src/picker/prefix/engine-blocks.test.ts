import { describe, expect, it } from "vitest";
import { EngineBlocks } from "./engine-blocks.ts";

describe("EngineBlocks", () => {
  it("gives memory back as blocks go, and keeps those that stay", () => {
    const blocks = new EngineBlocks(7);
    const empty = blocks.bytes;
    for (let n = 0; n < 10_000; n++) blocks.insert(n, 1, 0, n);
    const full = blocks.bytes;
    for (let n = 100; n < 10_000; n++) blocks.remove(blocks.find(n, 1, 0));
    expect(8 * blocks.bytes).toBeLessThan(full);
    for (let n = 0; n < 100; n++) expect(blocks.entryOf(blocks.find(n, 1, 0))).toBe(n);
    while (blocks.size > 0) blocks.remove(blocks.victim());
    expect(blocks.bytes).toBe(empty);
  });
});
