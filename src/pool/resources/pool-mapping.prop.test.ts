import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { madePool } from "../../../test/support/resources/made.cases.ts";
import type { SluiceError } from "../../base/inference/errors.ts";
import { GROUP, type InferencePool } from "./objects.ts";
import { asExperimental, asStable, effectivePort, storableV1 } from "./pool-mapping.ts";
import { readResource } from "./read.ts";

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
      "POOL_WITHOUT_PICKER: InferencePool ml/llama has no endpointPickerRef, but v1alpha2 needs an extensionRef; " +
        "add endpointPickerRef to the pool first",
    );
    expect(storableV1({ ...pool, selector: { app: "llama" } }).spec).not.toHaveProperty("endpointPickerRef");
  });
});
