import { describe, expect, it } from "vitest";
import { madePool } from "../../../test/support/resources/made.cases.ts";
import { GROUP } from "./objects.ts";
import { choosePool, type PoolIdentity } from "./pool-choice.ts";

const stable = { group: GROUP.stable };

function chosen(pools: readonly ReturnType<typeof madePool>[], wanted: PoolIdentity = {}): string {
  const pool = choosePool(pools, wanted);
  return pool === undefined ? "none" : `${pool.meta.namespace}/${pool.meta.name} ${pool.group.split(".").at(-3)}`;
}

describe("choosePool (R-20)", () => {
  it("needs no name where there is one pool", () => {
    expect(chosen([])).toBe("none");
    expect(chosen([madePool("a", { ...stable, meta: { namespace: "x" } })])).toBe("x/a networking");
    expect(chosen([madePool("a"), madePool("b", { meta: { deleting: true } })])).toMatch(/^default\/a /);
  });

  it("goes by name, namespace and group, each only where it is given", () => {
    const pools = [madePool("a"), madePool("b"), madePool("b", { meta: { namespace: "x" } })];
    expect(chosen(pools, { name: "a" })).toMatch(/^default\/a /);
    expect(chosen(pools, { name: "b", namespace: "x" })).toMatch(/^x\/b /);
    expect(chosen(pools, { namespace: "x" })).toMatch(/^x\/b /);
    expect(chosen(pools, { name: "c" })).toBe("none");
    expect(chosen(pools, { name: "a", group: GROUP.stable })).toBe("none");
  });

  it("takes a pool of both groups for that of the newer one, in any order, unless a group is asked for", () => {
    const both = [madePool("a", stable), madePool("a")];
    for (const pools of [both, both.toReversed()]) {
      expect(choosePool(pools, {})?.group).toBe(GROUP.stable);
      expect(choosePool(pools, { group: GROUP.experimental })?.group).toBe(GROUP.experimental);
    }
  });

  it("refuses to guess, listing what there is and the flag that decides", () => {
    const error = (pools: readonly ReturnType<typeof madePool>[], wanted: PoolIdentity = {}) => {
      try {
        return chosen(pools, wanted);
      } catch (thrown) {
        const { code, message } = thrown as { code: string; message: string };
        return `${code}: ${message}`;
      }
    };
    expect(error([madePool("b"), madePool("a")])).toBe(
      "POOL_AMBIGUOUS: there are 2 InferencePools: default/a, default/b; choose one with --pool-name",
    );
    expect(error([madePool("a"), madePool("a", { meta: { namespace: "x" } })], { name: "a" })).toBe(
      "POOL_AMBIGUOUS: there are 2 InferencePools: default/a, x/a; choose one with --pool-namespace",
    );
    const many = Array.from({ length: 30 }, (_, i) => madePool(`p${i + 10}`));
    expect(error(many)).toMatch(/there are 30 InferencePools: default\/p10, .*default\/p29, and 10 more;/);
  });
});
