import { posix } from "node:path";
import { describe, expect, it } from "vitest";
import { ARROWS, circlesOf, faultsOf, importsOf, pageViolationsIn, violationsIn } from "./arrows.ts";

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
    // What everybody may import has a list of its own.
    expect(violationsIn(`${clock}/a.ts`, `import "${path(clock, of("telemetry"))}/b.ts";`)).toHaveLength(1);
  });

  it("lets the page import the types of its feed and the scheduler, and no more", () => {
    const text = (target: string): string => `import { a } from "../../../src/${target}.ts";`;
    for (const allowed of ["wires/admin/feed/feed", "picker/scheduling/build", "base/clock/random"])
      expect(pageViolationsIn("views/a.tsx", text(allowed))).toEqual([]);
    for (const refused of ["picker/exchange/exchange", "pool/endpoints/pool", "wires/proxy/a", "commands/main"])
      expect(pageViolationsIn("views/a.tsx", text(refused))).toHaveLength(1);
    expect(pageViolationsIn("app.tsx", `import "./views/a.tsx"; import "preact";`)).toEqual([]);
  });

  it("catches unknown rooms, paths out of src and the time read elsewhere", () => {
    expect(violationsIn("attic/a.ts", "")).toHaveLength(1);
    const proxy = of("proxy");
    expect(violationsIn(`${proxy}/a.ts`, `import "${path(proxy, "../test/support")}/x.ts";`)).toHaveLength(1);
    expect(violationsIn(`${proxy}/a.ts`, `import "${path(proxy, "attic")}/x.ts";`)).toHaveLength(1);
    expect(violationsIn(`${proxy}/a.ts`, "const now = new Date();")).toHaveLength(1);
    expect(violationsIn(`${of("clock")}/a.ts`, "const now = new Date();")).toEqual([]);
  });

  it("catches arrows that lead up, rooms that are not there, and circles", () => {
    expect(faultsOf(ARROWS)).toEqual([]);
    expect(faultsOf({ "base/a": ["pool/b"], "pool/b": [] })).toEqual(["base/a may not call up to pool/b"]);
    expect(faultsOf({ "base/a": ["base/b"] })).toEqual(["base/a: there is no room base/b"]);
    expect(faultsOf({ "attic/a": [] })).toEqual(["attic/a lies on no floor"]);
    expect(
      faultsOf({ "base/a": ["base/b"], "base/b": ["base/c"], "base/c": ["base/a"], "base/d": ["base/a"] }),
    ).toEqual(["a circle of rooms: base/a, base/b, base/c"]);
    expect(faultsOf({ "pool/a": ["base/b"], "base/b": [] })).toEqual([]);
  });

  it("catches circles of files", () => {
    const graph = new Map([
      ["base/x/a.ts", importsOf("base/x/a.ts", 'import type { B } from "./b.ts";')],
      ["base/x/b.ts", importsOf("base/x/b.ts", 'export * from "../y/c.ts"; import "node:fs";')],
      ["base/y/c.ts", importsOf("base/y/c.ts", 'await import("../x/a.ts");')],
      ["base/y/d.ts", importsOf("base/y/d.ts", 'import "./c.ts";')],
    ]);
    expect(circlesOf(graph)).toEqual([["base/x/a.ts", "base/x/b.ts", "base/y/c.ts"]]);
  });
});
