import { describe, expect, it } from "vitest";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { MODEL_TYPE, POOL_TYPES } from "./kinds.ts";
import { objectReader } from "./watched-objects.ts";

const reader = () => {
  const warnings: string[] = [];
  return { warnings, read: objectReader(MODEL_TYPE, { ...silentLogger, warn: (_, text) => warnings.push(text) }) };
};
const object = (uid: string, generation: number, spec?: object) => ({
  metadata: { name: uid, namespace: "ns", uid, generation },
  ...(spec === undefined ? {} : { spec }),
});

describe("reading the objects of a kind", () => {
  it("knows the kind of what does not say it, and leaves fields of newer releases alone", () => {
    const { read, warnings } = reader();
    const spec = { modelName: "chat", poolRef: { name: "pool" }, brandNew: true };
    expect(read(object("a", 1, spec))).toMatchObject({ kind: "InferenceModel", modelName: "chat" });
    expect(warnings).toEqual([]);
  });

  it("tells what is wrong with an object once for each generation of it", () => {
    const { read, warnings } = reader();
    for (const generation of [1, 1, 2, 2, 1]) expect(read(object("a", generation))).toBeUndefined();
    expect(read(object("b", 1))).toBeUndefined();
    expect(warnings).toHaveLength(3);
    expect(warnings[0]).toMatch(/^InferenceModel ns\/a: .*spec/);
  });

  it("remembers what it told of 1,000 objects at most", () => {
    const { read, warnings } = reader();
    for (let at = 0; at < 1000; at++) read(object(`o${at}`, 1));
    for (let at = 0; at < 1000; at++) read(object(`o${at}`, 1));
    expect(warnings).toHaveLength(1000);
    read(object("o1000", 1));
    read(object("o0", 1));
    expect(warnings).toHaveLength(1002);
  });

  it("keeps our pool as it was last readable while it is broken, and lets it go when it is deleted or has no spec", () => {
    const warnings: string[] = [];
    const read = objectReader(POOL_TYPES[0]!, { ...silentLogger, warn: (_, text) => warnings.push(text) });
    const spec = {
      selector: { matchLabels: { app: "v" } },
      targetPorts: [{ number: 8000 }],
      endpointPickerRef: { name: "e", port: { number: 9002 } },
    };
    const readable = read(object("p", 1, spec));
    expect(readable).toMatchObject({ kind: "InferencePool", targetPorts: [8000] });
    const broken = { ...spec, appProtocol: "kubernetes.io/ws" };
    expect(read(object("p", 2, broken))).toBe(readable);
    expect(warnings.at(-1)).toBe("Sluice uses the last readable version of this InferencePool");
    const { metadata } = object("p", 3);
    expect(
      read({ metadata: { ...metadata, deletionTimestamp: "2026-01-01T00:00:00Z" }, spec: broken }),
    ).toBeUndefined();
    expect(read(object("another", 1, broken))).toBeUndefined();
    expect(read(object("p", 4, { ...spec, targetPorts: [{ number: 8001 }] }))).toMatchObject({ targetPorts: [8001] });
  });

  it.each([[null], ["text"], [[]], [{}], [{ metadata: null }], [{ metadata: { name: 7 } }]])(
    "takes %j for nothing",
    (value) => {
      const { read, warnings } = reader();
      expect(read(value)).toBeUndefined();
      expect(warnings.length).toBeGreaterThan(0);
    },
  );
});
