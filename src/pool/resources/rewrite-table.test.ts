import { describe, expect, it } from "vitest";
import { madeRewrite, rule } from "../../../test/support/resources/made.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import type { RewriteRule } from "./objects.ts";
import { RewriteTable } from "./rewrite-table.ts";

const random = new SeededRandom(1);
const made = (name: string, created: number, ...rules: RewriteRule[]) =>
  madeRewrite(name, rules, { meta: { creationTimestamp: created } });

function tableOf(...objects: ReturnType<typeof made>[]): (model: string) => string {
  const table = new RewriteTable();
  for (const object of objects) table.put(object);
  return (model) => {
    const match = table.match(model);
    return match === undefined ? "none" : `${match.rewrite}:${match.draw?.draw(random) ?? "-"}`;
  };
}

describe("RewriteTable (E-104, R-33)", () => {
  it("prefers an exact rule to one for every request, whatever their age and order", () => {
    const target = tableOf(made("old", 1, rule("", "g1"), rule("", "g2")), made("new", 2, rule("chat", "exact")));
    expect([target("chat"), target("other"), target("")]).toEqual(["new:exact", "old:g1", "old:g1"]);
  });

  it("prefers the older object, then the earlier rule; a rule with several models matches each", () => {
    const rules = [rule("a,b", "first"), rule("b,c", "second")];
    const young = made("young", 5, rule("a,b,c,d", "young"));
    for (const objects of [
      [young, made("old", 4, ...rules)],
      [made("old", 4, ...rules), young],
    ])
      expect(["a", "b", "c", "d", "e"].map(tableOf(...objects))).toEqual([
        "old:first",
        "old:first",
        "old:second",
        "young:young",
        "none",
      ]);
  });

  it("decides between objects of one age by name, in any order of arrival", () => {
    const [a, b] = [made("a", 7, rule("m", "a")), made("b", 7, rule("m", "b"))];
    expect([tableOf(a, b)("m"), tableOf(b, a)("m")]).toEqual(["a:a", "a:a"]);
  });

  it("lets a rule without targets stand in front of others: nothing is rewritten", () => {
    const target = tableOf(made("old", 1, rule("m")), made("new", 2, rule("m", "x"), rule("", "y")));
    expect([target("m"), target("n")]).toEqual(["old:-", "new:y"]);
  });

  it("matches byte for byte, and no member of a mapping by accident", () => {
    const target = tableOf(made("r", 1, rule("Chat", "x")));
    expect(["chat", "Chat ", "__proto__", "constructor"].map(target)).toEqual(["none", "none", "none", "none"]);
  });

  it("falls back when an object changes or goes", () => {
    const table = new RewriteTable();
    table.put(made("old", 1, rule("m", "old")));
    table.put(made("new", 2, rule("m", "new")));
    expect(table.match("m")?.rewrite).toBe("old");
    table.put(made("old", 1, rule("other", "old")));
    expect([table.match("m")?.rewrite, table.match("other")?.rewrite]).toEqual(["new", "old"]);
    table.remove("default/new");
    table.remove("default/never-there");
    expect([table.match("m"), table.match("other")?.rewrite]).toEqual([undefined, "old"]);
    table.clear();
    expect(table.match("other")).toBeUndefined();
  });

  it("says which models its objects name, to match them or as targets (S-96)", () => {
    const table = new RewriteTable();
    table.put(made("one", 1, rule("a,b", "c:1", "d")));
    table.put(made("two", 2, rule("", "e")));
    const named = () => ["a", "b", "c", "d", "e", "one", ""].filter((model) => table.names(model));
    expect(named()).toEqual(["a", "b", "c", "d", "e"]);
    table.remove("default/one");
    expect(named()).toEqual(["e"]);
  });
});
