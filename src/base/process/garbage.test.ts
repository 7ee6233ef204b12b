import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { fixedLimit } from "../../../test/support/slowness.ts";

/** Fills the young generation with objects that live for some collections, and prints its MiB: before, and the most after that. */
const PROGRAM = `
const { getHeapSpaceStatistics } = process.getBuiltinModule("node:v8");
const { keepHeapSmall } = await import(process.argv[1]);
let most = 0;
const look = () => {
  const { space_size } = getHeapSpaceStatistics().find((space) => space.space_name === "new_space");
  most = Math.max(most, space_size / 1048576);
  return most;
};
const live = (pieces, enough) => {
  let kept = [];
  for (let piece = 0; piece < pieces && look() < enough; piece++) {
    for (let i = 0; i < 5000; i++) kept.push({ i });
    if (kept.length > 1e5) kept = [];
  }
};
keepHeapSmall();
live(5000, 12);
const before = look();
keepHeapSmall();
live(1200, before + 8);
console.log(JSON.stringify([before, most]));
`;

function grown(...flags: readonly string[]): readonly [before: number, after: number] {
  const garbage = fileURLToPath(new URL("./garbage.ts", import.meta.url));
  const args = [...flags, "--input-type=module", "-e", PROGRAM, garbage];
  return JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8", timeout: fixedLimit(20_000) }));
}

describe.runIf(Number(process.versions.node.split(".")[0]) >= 26)("the young generation of a picker", () => {
  it("grows freely up to 12 MiB, and then stays as it is", () => {
    const [before, after] = grown();
    expect(before).toBeGreaterThanOrEqual(12);
    expect(after).toBeLessThanOrEqual(before + 1);
  });

  it("grows as far as an operator allows", () => {
    const [before, after] = grown("--max-semi-space-size=32");
    expect(after).toBeGreaterThanOrEqual(before + 8);
  });
});
