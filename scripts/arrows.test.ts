import { posix } from "node:path";
import { describe, expect, it } from "vitest";
import { ARROWS, violationsIn } from "./arrows.ts";

const rooms = Object.keys(ARROWS);
const of = (kind: string): string => rooms.find((room) => room === kind || room.endsWith(`/${kind}`))!;
/** How a file of one room names a file of another. */
const path = (from: string, to: string): string => `./${posix.relative(from, to)}`;

describe("arrow check", () => {
  it.each(rooms)("catches a planted violation in %s", (room) => {
    const forbidden = rooms.find(
      (other) => other !== room && violationsIn(`${room}/x.ts`, `import "${path(room, other)}/y.ts";`).length > 0,
    );
    expect(forbidden).toBeDefined();
    const there = path(room, forbidden!);
    for (const text of [
      `import { a } from "${there}/y.ts";`,
      `import type { A } from "${there}/y.ts";`,
      `export * from "${there}/deep/y.ts";`,
      `const a = await import("${there}/y.ts");`,
      `import {\n  a,\n} from "${there}/y.ts";`,
    ])
      expect(violationsIn(`${room}/x.ts`, text)).toHaveLength(1);
  });

  it("lets a room import itself, the nouns and what the table lists", () => {
    const [proxy, exchange, clock] = [of("proxy"), of("exchange"), of("clock")];
    const text = `import "./b.ts"; import "${path(proxy, exchange)}/wire.ts"; import "${path(proxy, clock)}/clock.ts";`;
    expect(violationsIn(`${proxy}/a.ts`, text)).toEqual([]);
    expect(violationsIn(`${exchange}/a.ts`, `import "${path(exchange, proxy)}/b.ts";`)).toHaveLength(1);
  });

  it("catches unknown rooms, paths out of src and the time read elsewhere", () => {
    expect(violationsIn("attic/a.ts", "")).toHaveLength(1);
    const proxy = of("proxy");
    expect(violationsIn(`${proxy}/a.ts`, `import "${path(proxy, "../test/support")}/x.ts";`)).toHaveLength(1);
    expect(violationsIn(`${proxy}/a.ts`, `import "${path(proxy, "attic")}/x.ts";`)).toHaveLength(1);
    expect(violationsIn(`${proxy}/a.ts`, "const now = new Date();")).toHaveLength(1);
    expect(violationsIn(`${of("clock")}/a.ts`, "const now = new Date();")).toEqual([]);
  });
});
