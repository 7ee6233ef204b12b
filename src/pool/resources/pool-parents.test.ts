import { describe, expect, it } from "vitest";
import { madePool } from "../../../test/support/resources/made.cases.ts";
import type { Finding } from "./condition.ts";
import { GROUP } from "./objects.ts";
import { type Parent, type ParentStatus, putParent, SENTINEL, withdrawParent } from "./pool-parents.ts";
import { readResource } from "./read.ts";
import { readPoolStatus } from "./status-kinds.ts";

const NOW = Date.UTC(2026, 0, 31, 12);
const stable = madePool("llama", { meta: { namespace: "ml" }, group: GROUP.stable });
const old = madePool("llama", { meta: { namespace: "ml" }, group: GROUP.experimental });
const accepted: Finding = { type: "Accepted", status: "True", reason: "Accepted", message: "", observedGeneration: 3 };
const resolved: Finding = { ...accepted, type: "ResolvedRefs", reason: "ResolvedRefs" };
const gateway = (name: string, controllerName?: string): Parent => ({
  ref: { name, namespace: "infra" },
  controllerName,
});
const names = (parents: readonly ParentStatus[] | undefined) => parents?.map(({ parentRef }) => parentRef.name);

describe("putParent", () => {
  it("adds one entry per gateway and updates it in place (R-46)", () => {
    const one = putParent(stable, [], gateway("a", "example.com/gw"), [accepted, resolved], NOW)!;
    expect(one).toEqual([
      {
        parentRef: { name: "a", namespace: "infra" },
        controllerName: "example.com/gw",
        conditions: [
          { ...accepted, lastTransitionTime: "2026-01-31T12:00:00Z" },
          { ...resolved, lastTransitionTime: "2026-01-31T12:00:00Z" },
        ],
      },
    ]);
    const two = putParent(stable, one, gateway("b"), [accepted], NOW)!;
    const broken = { ...resolved, status: "False" as const, reason: "InvalidExtensionRef" };
    const three = putParent(stable, two, gateway("a", "example.com/gw"), [accepted, broken], NOW + 60_000)!;
    expect(names(three)).toEqual(["a", "b"]);
    expect(three[0]!.conditions!.map((c) => `${c.reason} ${c.lastTransitionTime}`)).toEqual([
      "Accepted 2026-01-31T12:00:00Z",
      "InvalidExtensionRef 2026-01-31T12:01:00Z",
    ]);
    expect(three[1]).toBe(two[1]);
  });

  it("hands back the same list when nothing changed, so that nothing is written", () => {
    for (const of of [stable, old]) {
      const list = putParent(of, [], gateway("a"), [accepted], NOW)!;
      expect(putParent(of, list, gateway("a"), [accepted], NOW + 1e6)).toBe(list);
    }
  });

  it("takes a reference and the same one with its defaults written out for one", () => {
    const list = putParent(stable, [], { ref: { name: "a" } }, [accepted], NOW)!;
    const full = { group: "gateway.networking.k8s.io", kind: "Gateway", name: "a", namespace: "ml" };
    expect(putParent(stable, list, { ref: full }, [accepted], NOW)).toBe(list);
    const differing = [
      { namespace: "other" },
      { kind: "InferencePoolImport" },
      { group: "example.com" },
      { name: "b" },
    ];
    for (const change of differing)
      expect(putParent(stable, list, { ref: { ...full, ...change } }, [accepted], NOW)).toHaveLength(2);
  });

  it("leaves the entry of another controller for the same parent alone", () => {
    const theirs = putParent(stable, [], gateway("a", "example.com/one"), [accepted], NOW)!;
    const both = putParent(stable, theirs, gateway("a", "example.com/two"), [resolved], NOW)!;
    expect(both.map(({ controllerName }) => controllerName)).toEqual(["example.com/one", "example.com/two"]);
    expect(both[0]).toBe(theirs[0]);
    expect(withdrawParent(stable, both, gateway("a", "example.com/two"))).toEqual(theirs);
  });

  it("removes the sentinel of v1alpha2 with the first word on Accepted, and says it in the words of that version", () => {
    expect(names(putParent(old, [SENTINEL], gateway("a"), [resolved], NOW))).toEqual(["default", "a"]);
    const refusal: Finding = { ...accepted, status: "False", reason: "NotSupportedByParent" };
    const list = putParent(old, [SENTINEL], gateway("a", "example.com/gw"), [refusal], NOW)!;
    expect(list).toMatchObject([{ parentRef: { name: "a" }, conditions: [{ reason: "NotSupportedByGateway" }] }]);
    expect(list[0]).not.toHaveProperty("controllerName");
    expect(putParent(stable, [], gateway("a"), [refusal], NOW)).toMatchObject([
      { conditions: [{ reason: "NotSupportedByParent" }] },
    ]);
  });

  it("replaces the condition that waits in a fresh v1alpha2 entry", () => {
    const reading = readPoolStatus(GROUP.experimental, { parent: [{ parentRef: { name: "a", namespace: "infra" } }] });
    const list = putParent(old, "status" in reading ? reading.status : [], gateway("a"), [accepted], NOW)!;
    expect(list).toMatchObject([{ conditions: [{ status: "True", lastTransitionTime: "2026-01-31T12:00:00Z" }] }]);
    expect(list[0]!.conditions).toHaveLength(1);
  });

  it("takes 32 parents and no more; a parent in a full list can still be updated", () => {
    let list: readonly ParentStatus[] = [];
    for (let i = 0; i < 32; i++) list = putParent(stable, list, gateway(`g${i}`), [accepted], NOW)!;
    expect(putParent(stable, list, gateway("one-more"), [accepted], NOW)).toBeUndefined();
    expect(putParent(stable, list, gateway("g31"), [resolved], NOW)).toHaveLength(32);
  });

  it("writes nothing of a parent whose conditions find no room", () => {
    const findings = Array.from({ length: 9 }, (_, i): Finding => ({ ...accepted, type: `T${i}` }));
    expect(putParent(stable, [], gateway("a"), findings, NOW)).toBeUndefined();
  });

  it("writes what the API accepts", () => {
    for (const of of [stable, old]) {
      const parents = putParent(of, [], gateway("a", "example.com/gw"), [accepted, resolved], NOW);
      const key = of === stable ? "parents" : "parent";
      expect(readPoolStatus(of.group, { [key]: parents })).toHaveProperty("status");
    }
  });
});

describe("withdrawParent", () => {
  it("leaves an empty list in v1 and the sentinel in v1alpha2 (R-46)", () => {
    const list = putParent(stable, [], gateway("a"), [accepted], NOW)!;
    expect(withdrawParent(stable, list, gateway("a"))).toEqual([]);
    expect(withdrawParent(old, list, gateway("a"))).toEqual([SENTINEL]);
    const two = putParent(old, list, gateway("b"), [accepted], NOW)!;
    expect(names(withdrawParent(old, two, gateway("a")))).toEqual(["b"]);
  });

  it("changes nothing for a parent that isn't there", () => {
    const list = [SENTINEL];
    expect(withdrawParent(old, list, gateway("a"))).toBe(list);
    const empty: ParentStatus[] = [];
    expect(withdrawParent(old, empty, gateway("a"))).toBe(empty);
  });

  it("knows the sentinel that an API server fills in", () => {
    const text = { apiVersion: `${GROUP.experimental}/v1alpha2`, kind: "InferencePool", metadata: { name: "x" } };
    expect(readResource(text).outcome).toBe("empty");
    expect(readPoolStatus(GROUP.experimental, undefined)).toMatchObject({ status: [SENTINEL] });
  });
});
