import { describe, expect, it } from "vitest";
import { ARROWS, violationsIn } from "./arrows.ts";

const rooms = Object.keys(ARROWS);

describe("arrow check", () => {
  it.each(rooms)("catches a planted violation in %s", (room) => {
    const forbidden = rooms.find(
      (other) => other !== room && violationsIn(`${room}/x.ts`, `import "../${other}/y.ts";`).length > 0,
    );
    expect(forbidden).toBeDefined();
    for (const text of [
      `import { a } from "../${forbidden}/y.ts";`,
      `import type { A } from "../${forbidden}/y.ts";`,
      `export * from "../${forbidden}/deep/y.ts";`,
      `const a = await import("../${forbidden}/y.ts");`,
      `import {\n  a,\n} from "../${forbidden}/y.ts";`,
    ])
      expect(violationsIn(`${room}/x.ts`, text)).toHaveLength(1);
  });

  it("lets a room import itself, the nouns and what the table lists", () => {
    expect(
      violationsIn("proxy/a.ts", 'import "./b.ts"; import "../exchange/wire.ts"; import "../clock/clock.ts";'),
    ).toEqual([]);
    expect(violationsIn("app/a.ts", 'import "../proxy/b.ts";')).toEqual([]);
    expect(violationsIn("app/a.ts", 'import "../cli/b.ts";')).toHaveLength(1);
  });

  it("catches unknown rooms, paths out of src and the time read elsewhere", () => {
    expect(violationsIn("attic/a.ts", "")).toHaveLength(1);
    expect(violationsIn("app/a.ts", 'import "../../test/support/x.ts";')).toHaveLength(1);
    expect(violationsIn("app/a.ts", "const now = new Date();")).toHaveLength(1);
    expect(violationsIn("clock/a.ts", "const now = new Date();")).toEqual([]);
  });
});
