import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { madePool } from "../../../test/support/resources/made.cases.ts";
import type { SluiceError } from "../../base/inference/errors.ts";
import { type Condition, pendingCondition } from "./condition.ts";
import { GROUP, type InferencePool } from "./objects.ts";
import { asExperimental, asStable, effectivePort, storableV1 } from "./pool-mapping.ts";
import { type ParentStatus, SENTINEL } from "./pool-parents.ts";
import { readResource } from "./read.ts";
import { experimentalStatus, stableStatus } from "./status-mapping.ts";

const name = fc.string({ unit: fc.constantFrom(..."abc123"), minLength: 1, maxLength: 8 });
const port = fc.integer({ min: 1, max: 65_535 });
const meta = fc.record({
  name,
  namespace: name,
  uid: fc.constant(""),
  creationTimestamp: fc.constant(0),
  generation: fc.constant(0),
  deleting: fc.constant(false),
  labels: fc.dictionary(name, name, { maxKeys: 2 }),
  annotations: fc.dictionary(name, fc.string(), { maxKeys: 2 }),
});
const picker = (openPort: boolean) =>
  fc.record({
    group: fc.constantFrom("", "apps.example.com"),
    kind: fc.constantFrom("Service", "Picker"),
    name,
    port: openPort ? fc.option(port, { nil: undefined }) : port,
    failureMode: fc.constantFrom("FailOpen" as const, "FailClose" as const),
  });
const selector = fc.dictionary(name, name, { minKeys: 1, maxKeys: 3 });
const experimental = (openPort: boolean): fc.Arbitrary<InferencePool> =>
  fc.record({
    kind: fc.constant("InferencePool"),
    group: fc.constant(GROUP.experimental),
    meta,
    selector,
    targetPorts: fc.tuple(port),
    appProtocol: fc.constant("http"),
    picker: picker(openPort),
  });
const stable: fc.Arbitrary<InferencePool> = fc.record({
  kind: fc.constant("InferencePool"),
  group: fc.constant(GROUP.stable),
  meta,
  selector,
  targetPorts: fc.uniqueArray(port, { minLength: 1, maxLength: 8 }),
  appProtocol: fc.constantFrom("http", "kubernetes.io/h2c"),
  picker: picker(false),
});

describe("pools of v1alpha2 and v1", () => {
  it("survive the way to v1 and back (R-5)", () => {
    fc.assert(
      fc.property(experimental(true), (pool) => {
        expect(asExperimental(asStable(pool))).toEqual(pool);
        expect(asStable(pool)).toEqual({ ...pool, group: GROUP.stable });
        expect(asStable(asStable(pool))).toEqual(asStable(pool));
      }),
    );
  });

  it("lose all but the first port and the protocol on the way to v1alpha2 (R-6)", () => {
    fc.assert(
      fc.property(stable, (pool) => {
        expect(asExperimental(pool)).toEqual({
          ...pool,
          group: GROUP.experimental,
          targetPorts: [pool.targetPorts[0]],
          appProtocol: "http",
        });
      }),
    );
  });

  it("become manifests of v1 that the API accepts, an open port of a Service closed with 9002 (R-5)", () => {
    fc.assert(
      fc.property(fc.oneof(experimental(true), stable), (pool) => {
        const reading = readResource(JSON.parse(JSON.stringify(storableV1(pool))));
        if (reading.outcome !== "usable") throw new Error(JSON.stringify(reading));
        const port = pool.picker && effectivePort(pool.picker);
        expect(reading.object).toEqual({ ...asStable(pool), picker: pool.picker && { ...pool.picker, port } });
        if (pool.picker?.kind === "Service") expect(port).toBe(pool.picker.port ?? 9002);
        else expect(port).toBe(pool.picker?.port);
      }),
    );
  });

  it("say why they can't become what the other version doesn't know", () => {
    const pool = { ...madePool("llama", { meta: { namespace: "ml" } }), selector: {} };
    const failure = (run: () => unknown) => {
      try {
        return run();
      } catch (error) {
        return `${(error as SluiceError).code}: ${(error as SluiceError).message}`;
      }
    };
    expect(failure(() => storableV1(pool))).toMatch(
      /^POOL_NOT_STORABLE: InferencePool ml\/llama can't become v1: spec\.selector\.matchLabels: must have at least 1 label/,
    );
    expect(failure(() => asExperimental(asStable(pool)))).toBe(
      "POOL_WITHOUT_PICKER: InferencePool ml/llama has no endpointPickerRef, and v1alpha2 needs its extensionRef; " +
        "add endpointPickerRef to the pool first",
    );
    expect(storableV1({ ...pool, selector: { app: "llama" } }).spec).not.toHaveProperty("endpointPickerRef");
  });
});

describe("their status", () => {
  const condition = (type: string, status: Condition["status"], reason: string): Condition => ({
    type,
    status,
    reason,
    message: "m",
    lastTransitionTime: "2026-01-31T12:00:00Z",
    observedGeneration: 2,
  });
  const known = fc.constantFrom(
    condition("Accepted", "True", "Accepted"),
    condition("Accepted", "False", "NotSupportedByParent"),
    condition("Accepted", "False", "HTTPRouteNotAccepted"),
    condition("ResolvedRefs", "False", "InvalidExtensionRef"),
    condition("Accepted", "Unknown", "Other"),
    condition("Accepted", "False", "Pending"),
    condition("Other", "Unknown", "Pending"),
    condition("ResolvedRefs", "False", "NotSupportedByParent"),
  );
  const parent: fc.Arbitrary<ParentStatus> = fc.record(
    {
      parentRef: fc.record(
        { name, namespace: name, group: name, kind: name },
        { requiredKeys: ["name"], noNullPrototype: true },
      ),
      conditions: fc.array(known, { minLength: 1, maxLength: 3 }),
    },
    { noNullPrototype: true },
  );

  it("survives the way to v1alpha2 and back, absent parts stay absent (R-5)", () => {
    fc.assert(
      fc.property(fc.array(parent, { minLength: 1, maxLength: 3 }), (parents) => {
        expect(stableStatus(experimentalStatus({ parents }))).toStrictEqual({ parents });
      }),
    );
  });

  it("maps the one reason that has two names, on Accepted only (R-5)", () => {
    const parents = [
      {
        parentRef: { name: "gw" },
        conditions: [
          condition("Accepted", "False", "NotSupportedByParent"),
          condition("ResolvedRefs", "False", "NotSupportedByParent"),
        ],
      },
    ];
    const old = experimentalStatus({ parents });
    expect(old.parent?.[0]?.conditions?.map(({ reason }) => reason)).toEqual([
      "NotSupportedByGateway",
      "NotSupportedByParent",
    ]);
    expect(stableStatus(old)).toEqual({ parents });
  });

  it("drops the sentinel, entries without a name and what only waits", () => {
    const waiting = pendingCondition("Accepted");
    const accepted = condition("Accepted", "True", "Accepted");
    expect(stableStatus({ parent: [SENTINEL] })).toStrictEqual({});
    expect(stableStatus({})).toStrictEqual({});
    expect(stableStatus({ parent: [{ parentRef: { name: "" } }] })).toStrictEqual({});
    expect(
      stableStatus({
        parent: [
          SENTINEL,
          { parentRef: { name: "a" }, conditions: [waiting] },
          { parentRef: { name: "b" }, conditions: [{ ...waiting, message: "differs" }, accepted] },
          { parentRef: { name: "default" }, conditions: [{ ...waiting, type: "ResolvedRefs" }] },
        ],
      }),
    ).toStrictEqual({
      parents: [
        { parentRef: { name: "a" } },
        { parentRef: { name: "b" }, conditions: [accepted] },
        { parentRef: { name: "default" }, conditions: [{ ...waiting, type: "ResolvedRefs" }] },
      ],
    });
  });

  it("drops controllers' names on the way to v1alpha2 and makes up no sentinel (R-6)", () => {
    expect(experimentalStatus({})).toStrictEqual({});
    expect(experimentalStatus({ parents: [] })).toStrictEqual({});
    expect(experimentalStatus({ parents: [{ parentRef: { name: "a" }, controllerName: "a.b/c" }] })).toStrictEqual({
      parent: [{ parentRef: { name: "a" } }],
    });
  });
});
