import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defaultSettings } from "./gateway-file.ts";
import { GATEWAY_KEY_NAMES, GivenSettings, settingsChange } from "./gateway-keys.ts";
import { gatewaySettings } from "./gateway-settings.ts";

interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>;
}

/** The keys of a schema down to those without keys of their own. Sections that change as one count as one. */
function leaves({ properties }: Shape, at = ""): string[] {
  if (properties === undefined || ["endpoints", "cors", "servers.tls"].includes(at)) return [at];
  return Object.entries(properties).flatMap(([key, inner]) => leaves(inner, at === "" ? key : `${at}.${key}`));
}

describe("the table of keys", () => {
  it("has a row for each key of the schema, so no change is lost", () => {
    const schema = z.toJSONSchema(gatewaySettings, { io: "input", unrepresentable: "any" }) as Shape;
    expect(leaves(schema).sort()).toEqual([...GATEWAY_KEY_NAMES].sort());
  });
});

describe("flags over a file", () => {
  it("win key by key, and leave the others and the file's settings alone", () => {
    const file = gatewaySettings.parse({ retries: { max: 5, statuses: [500] }, log: { requests: { which: "all" } } });
    const before = structuredClone(file);
    const given = new GivenSettings();
    given.set("retries.max", 0);
    given.set("log.requests.file", "a.log");
    const both = given.over(file);
    expect(both.retries).toEqual({ max: 0, statuses: [500] });
    expect(both.log).toEqual({ level: "info", requests: { which: "all", file: "a.log" } });
    expect(file).toEqual(before);
  });
});

describe("a change", () => {
  const start = defaultSettings();
  const changed = gatewaySettings.parse({
    listeners: [{ address: "127.0.0.1:1" }],
    retries: { max: 7 },
    endpoints: { list: [{ name: "a", address: "a", port: 1, models: ["m"] }] },
    bodies: { budget: "1Gi" },
  });

  it("is none between equal settings", () => {
    expect(settingsChange(changed, structuredClone(changed))).toEqual({ now: [], restart: [], inForce: changed });
  });

  it("is cut into what counts now and what counts after a restart", () => {
    const { now, restart, inForce } = settingsChange(start, changed);
    expect(now).toEqual(["endpoints", "retries.max"]);
    expect(restart).toEqual(["listeners", "bodies.budget"]);
    expect(inForce.retries.max).toBe(7);
    expect([inForce.listeners, inForce.bodies]).toEqual([start.listeners, start.bodies]);
  });

  it("that needs a restart is reported again with the next one, until it is taken back", () => {
    const { inForce } = settingsChange(start, changed);
    expect(settingsChange(inForce, changed)).toMatchObject({ now: [], restart: ["listeners", "bodies.budget"] });
    expect(settingsChange(inForce, { ...changed, listeners: start.listeners, bodies: start.bodies }).restart).toEqual(
      [],
    );
  });
});
