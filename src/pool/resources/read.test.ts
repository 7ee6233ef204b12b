import { describe, expect, it } from "vitest";
import { madePool } from "../../../test/support/resources/made.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { objectivesFromFlags } from "./objectives.ts";
import { GROUP } from "./objects.ts";
import { readServed } from "./read.ts";
import { ModelResolver } from "./resolve.ts";
import { ResourceStore } from "./resource-store.ts";

const metadata = { name: "pool", namespace: "default", uid: "u", creationTimestamp: "2026-01-01T00:00:00Z" };
const pool = (version: "v1" | "v1alpha2", spec: object) =>
  readServed({
    apiVersion: `${version === "v1" ? GROUP.stable : GROUP.experimental}/${version}`,
    kind: "InferencePool",
    metadata,
    spec,
  });
const picker = { name: "epp", port: { number: 9002 } };

/** What becomes of a request for `chat`, whose InferenceModel has targets of these weights. */
function routed(...weights: readonly (number | undefined)[]): { to: string; problems: readonly string[] } {
  const targetModels = weights.map((weight, i) => ({ name: `t${i}`, ...(weight !== undefined && { weight }) }));
  const { object, problems } = readServed({
    apiVersion: `${GROUP.experimental}/v1alpha2`,
    kind: "InferenceModel",
    metadata: { ...metadata, name: "m" },
    spec: { modelName: "chat", poolRef: { name: "pool" }, targetModels },
  });
  const resources = new ResourceStore();
  resources.replace([madePool(), ...(object === undefined ? [] : [object])]);
  const resolver = new ModelResolver({
    random: new SeededRandom(1),
    objectives: objectivesFromFlags([]),
    resources,
  });
  const found = resolver.resolve(
    { model: "chat", modelRange: { start: 0, end: 1 }, modelInsertAt: -1 },
    HeaderList.of([]),
  );
  return { to: found instanceof Rejection ? found.detail : found.targetModel, problems };
}

describe("objects that a definition of another release let in", () => {
  it("a name that is reserved by weights of 0 has no valid target (R-17, X-1)", () => {
    for (const weights of [[0], [0, 0]])
      expect(routed(...weights).to).toBe("error getting target model name for model chat: no valid target model");
    expect(routed(0, 3)).toEqual({ to: "t1", problems: [] });
    expect(routed(-1, 0.5, 7).to).toBe("t2");
  });

  it("targets of which some have a weight: those without get nothing, and that is told (R-17)", () => {
    const { to, problems } = routed(undefined, 3);
    expect(to).toBe("t1");
    expect(problems).toEqual([expect.stringMatching(/^InferenceModel default\/m: spec\.targetModels: /)]);
  });

  it("a pool of v1.0 may have an empty selector: every pod (X-6)", () => {
    const { object, problems } = pool("v1", {
      selector: { matchLabels: {} },
      targetPorts: [{ number: 8000 }],
      endpointPickerRef: picker,
    });
    expect([object, problems]).toMatchObject([{ kind: "InferencePool", selector: {} }, []]);
  });

  it("a pool without appProtocol says nothing of how its servers speak (R-35)", () => {
    const spec = {
      selector: { matchLabels: { app: "a" } },
      targetPorts: [{ number: 8000 }],
      endpointPickerRef: picker,
    };
    expect(pool("v1", spec).object).toMatchObject({ appProtocol: undefined });
    expect(pool("v1", { ...spec, appProtocol: "kubernetes.io/h2c" }).object).toMatchObject({
      appProtocol: "kubernetes.io/h2c",
    });
  });

  it("what makes no sense in any release is broken", () => {
    const { object, problems } = pool("v1alpha2", { selector: { app: "a" }, targetPortNumber: "http" });
    expect(object).toBeUndefined();
    expect(problems.join("\n")).toContain("InferencePool default/pool: spec.targetPortNumber: ");
    const selector = JSON.parse('{"__proto__": "a", "app": "a"}') as object;
    expect(pool("v1alpha2", { selector, targetPortNumber: 8000, extensionRef: { name: "epp" } })).toEqual({
      object: undefined,
      broken: true,
      problems: ["InferencePool default/pool: spec.selector: may not have the key `__proto__`"],
    });
  });
});
