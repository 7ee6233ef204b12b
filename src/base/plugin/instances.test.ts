import { describe, expect, it } from "vitest";
import { z } from "zod";
import { SeededRandom } from "../clock/random.ts";
import { VirtualClock } from "../clock/virtual.ts";
import { silentLogger } from "../telemetry/logger.ts";
import { defineDecider, defineProducer, defineProfileHandler } from "./define.ts";
import { type PluginDescription, PluginInstances, sameParameters } from "./instances.ts";
import type { PluginContext } from "./kinds.ts";

const parts = { clock: new VirtualClock(), random: new SeededRandom(1), log: silentLogger };
const contexts: PluginContext[] = [];
const memory = defineProducer({
  type: "memory",
  describe: "",
  parameters: z.object({ size: z.number() }),
  create: (_, context) => {
    contexts.push(context);
    return { produce: () => {} };
  },
});
const decider = defineDecider({
  type: "decider",
  describe: "",
  parameters: z.object({ yes: z.boolean() }),
  create: ({ yes }) => ({ decide: () => yes }),
});
const parameters = z.object({ by: z.string() });
const handler = defineProfileHandler({
  type: "handler",
  describe: "",
  parameters,
  references: ({ by }) => [{ path: ["by"], name: by, kind: "decider" }],
  create: ({ by }, context) => {
    const { decide } = context.plugin(by, "decider");
    return { pick: () => [], processResults: () => String(decide({} as never)) };
  },
});

const described = <D extends PluginDescription>(definition: D["definition"], name: string, given: object) => ({
  definition,
  name,
  parameters: given,
});

describe("plugin instances", () => {
  it("are made once however often they are named, and know their own name", () => {
    const instances = new PluginInstances(parts);
    const one = described(memory, "m", { size: 1 });
    expect(instances.make(one)).toBe(instances.make({ ...one }));
    expect(contexts.at(-1)?.name).toBe("m");
    expect(instances.make({ ...one, name: "n" })).not.toBe(instances.make(one));
    expect([...instances.list()].map(({ name, type }) => [name, type])).toEqual([
      ["m", "memory"],
      ["n", "memory"],
    ]);
  });

  it("are never given out for another type of the same name", () => {
    const instances = new PluginInstances(parts);
    instances.make(described(memory, "m", { size: 1 }));
    const other = { ...memory, type: "other" };
    expect(() => instances.make(described(other, "m", { size: 1 }))).toThrow(
      "two plugins are called m: a memory and a other",
    );
  });

  it("get the plugins they refer to, whoever is made first", () => {
    const configured = [described(decider, "d", { yes: true })];
    const instances = new PluginInstances({ ...parts, configured });
    const made = instances.make({ definition: handler, name: "h", parameters: { by: "d" } });
    expect(made.processResults({} as never)).toBe("true");
    expect(() => instances.make({ definition: handler, name: "g", parameters: { by: "x" } })).toThrow(
      "plugin g has a dependency on the unregistered plugin x, which must be a decider",
    );
  });

  it("refuse a circle of references and stay usable", () => {
    const knot = defineDecider({
      type: "knot",
      describe: "",
      parameters,
      references: ({ by }) => [{ path: ["by"], name: by, kind: "decider" }],
      create: () => ({ decide: () => true }),
    });
    const configured = [described(knot, "a", { by: "b" }), described(knot, "b", { by: "a" })];
    const instances = new PluginInstances({ ...parts, configured });
    expect(() => instances.make(configured[0]!)).toThrow("dependency cycle: decider a -> decider b -> decider a");
    expect(() => instances.make(configured[0]!)).toThrow("dependency cycle");
  });

  it("go on with what they have learnt under a configuration that describes them the same, and only then", () => {
    const before = new PluginInstances(parts);
    const same = before.make(described(memory, "same", { size: 1 }));
    const changed = before.make(described(memory, "changed", { size: 1 }));
    const after = new PluginInstances({ ...parts, previous: before });
    expect(after.make(described(memory, "same", { size: 1 }))).toBe(same);
    expect(after.make(described(memory, "changed", { size: 2 }))).not.toBe(changed);
    expect(after.make(described({ ...memory }, "same-name", { size: 1 }))).not.toBe(same);
    after.settle();
    expect(after.make(described(memory, "late", { size: 1 }))).not.toBe(same);
    // Or else the context of one that went on would keep the others.
    expect([...before.list()]).toEqual([]);
    expect([...after.list()].map(({ instance }) => instance)).toContain(same);
  });

  it("are made anew when what a schema has made of the parameters differs, though JSON would not show it", () => {
    const matcher = defineDecider({
      type: "matcher",
      describe: "",
      parameters: z.object({ match: z.string().transform((text) => new RegExp(text)) }),
      create: ({ match }) => ({ decide: () => match.test("abc") }),
    });
    const made = (text: string, previous?: PluginInstances) => {
      const instances = new PluginInstances({ ...parts, previous });
      const parameters = matcher.parameters.parse({ match: text });
      return { instances, plugin: instances.make({ definition: matcher, name: "m", parameters }) };
    };
    const before = made("a");
    expect(made("a", before.instances).plugin).toBe(before.plugin);
    expect(made("z", before.instances).plugin.decide({} as never)).toBe(false);
  });

  it("are made anew when a plugin they refer to is", () => {
    const of = (yes: boolean, previous?: PluginInstances) =>
      new PluginInstances({ ...parts, configured: [described(decider, "d", { yes })], previous });
    const h = { definition: handler, name: "h", parameters: { by: "d" } };
    const first = of(true);
    const made = first.make(h);
    expect(of(true, first).make(h)).toBe(made);
    expect(
      of(false, first)
        .make(h)
        .processResults({} as never),
    ).toBe("false");
  });
});

/** Plugins that note when they are closed. */
function closable() {
  const closed: string[] = [];
  const errors: string[] = [];
  const log = { ...silentLogger, error: (_: unknown, text: string) => errors.push(text), child: () => log };
  const door = defineDecider({
    type: "door",
    describe: "",
    parameters: z.object({ size: z.number(), to: z.string().default("") }),
    references: ({ to }) => (to === "" ? [] : [{ path: ["to"], name: to, kind: "decider" as const }]),
    create: ({ size }, { name }) => ({
      decide: () => true,
      close() {
        closed.push(`${name} ${size}`);
        if (name === "stuck") throw new Error("it is stuck");
        if (name === "slow") return Promise.reject(new Error("too slow")) as never;
      },
    }),
  });
  const of = (sizes: Readonly<Record<string, number>>, previous?: PluginInstances, to = "") => {
    const configured = Object.entries(sizes).map(([name, size]) => described(door, name, { size, to: "" }));
    const instances = new PluginInstances({ ...parts, log, configured, previous });
    if (to !== "") instances.make(described(door, "leads", { size: 0, to }));
    for (const plugin of configured) instances.make(plugin);
    return instances;
  };
  return { closed, errors, of };
}

describe("the readiness of plugin instances", () => {
  const answers = new Map<string, () => boolean>();
  const loading = defineDecider({
    type: "loading",
    describe: "",
    create: (_, { name }) => ({ decide: () => true, ready: () => answers.get(name)!() }),
  });

  it("is that each which can tell says yes; whose check fails is not ready, and why is told", () => {
    const instances = new PluginInstances(parts);
    expect(instances.unready()).toBeUndefined();
    instances.make(described(memory, "m", { size: 1 }));
    for (const name of ["first", "second"]) {
      answers.set(name, () => false);
      instances.make(described(loading, name, {}));
    }
    expect(instances.unready()).toEqual({ name: "first", failure: "" });
    answers.set("first", () => true);
    expect(instances.unready()).toEqual({ name: "second", failure: "" });
    answers.set("second", () => {
      throw new Error("no index\nanywhere");
    });
    expect(instances.unready()).toEqual({ name: "second", failure: "no index anywhere" });
    answers.set("second", () => true);
    expect(instances.unready()).toBeUndefined();
    instances.close();
  });
});

describe("the end of plugin instances", () => {
  it("comes for those that another configuration has no place for, once, and for the others with that one", () => {
    const { closed, of } = closable();
    const before = of({ same: 1, changed: 1, gone: 1 });
    const after = of({ same: 1, changed: 2, new: 1 }, before);
    expect(closed).toEqual([]);
    after.settle();
    expect(closed).toEqual(["gone 1", "changed 1"]);
    after.settle();
    before.close();
    expect(closed).toHaveLength(2);
    after.close();
    expect(closed.slice(2)).toEqual(["new 1", "changed 2", "same 1"]);
    after.close();
    expect(closed).toHaveLength(5);
  });

  it("comes for what was made of a refused configuration, and not for what goes on in the one before", () => {
    const { closed, of } = closable();
    const before = of({ same: 1, changed: 1 });
    of({ same: 1, changed: 2 }, before).close();
    expect(closed).toEqual(["changed 2"]);
    of({ same: 1, changed: 1 }, before).settle();
    expect(closed).toEqual(["changed 2"]);
  });

  it("comes for who refers to another one first, and keeps nothing from ending where one fails", async () => {
    const { closed, errors, of } = closable();
    of({ slow: 1, led: 1, stuck: 1 }, undefined, "led").close();
    expect(closed).toEqual(["stuck 1", "slow 1", "leads 0", "led 1"]);
    await Promise.resolve();
    expect(errors).toEqual(["plugin stuck failed to close", "plugin slow failed to close"]);
  });

  it("is none for plugins without", () => {
    const instances = new PluginInstances(parts);
    instances.make(described(memory, "m", { size: 1 }));
    instances.close();
    expect([...instances.list()]).toEqual([]);
  });
});

/** A new value each time. */
type Make = () => unknown;

const circle = () => {
  const value: { self?: unknown } = {};
  value.self = value;
  return value;
};

describe("sameParameters", () => {
  it.each<readonly [string, Make]>([
    ["plain data", () => ({ a: [1, "x", null, { b: true }], c: {} })],
    ["NaN, infinities and -0", () => [Number.NaN, Number.POSITIVE_INFINITY, -0]],
    ["large integers", () => ({ size: 2n ** 70n })],
    ["regular expressions", () => /a+/gi],
    ["dates", () => new Date(5)],
    ["maps and sets", () => ({ m: new Map([["a", { b: 1 }]]), s: new Set([1, 2]) })],
    ["objects without a prototype", () => Object.assign(Object.create(null), { a: 1 })],
    ["a key called __proto__", () => JSON.parse('{"__proto__":{"a":1}}')],
    ["nothing", () => undefined],
  ])("finds two of the same: %s", (_, make) => {
    expect(sameParameters(make(), make())).toBe(true);
  });

  it("finds the same in another order of keys", () => {
    expect(sameParameters({ a: 1, b: 2 }, { b: 2, a: 1 })).toBe(true);
  });

  it.each<readonly [string, unknown, unknown]>([
    ["a value", { a: [1] }, { a: [2] }],
    ["a value more", { a: 1 }, { a: 1, b: 2 }],
    ["a value that is undefined and one that is null", { a: undefined }, { a: null }],
    ["NaN and null, which JSON writes the same", Number.NaN, null],
    ["0 and -0", { a: 0 }, { a: -0 }],
    ["1 and 1n", 1, 1n],
    ["a number and its text", { a: 1 }, { a: "1" }],
    ["a list and an object", [], {}],
    ["lengths", [1, undefined], [1]],
    ["expressions", /a/, /b/],
    ["flags", /a/, /a/i],
    ["dates", new Date(1), new Date(2)],
    ["what maps hold", new Map([["a", 1]]), new Map([["a", 2]])],
    ["what sets hold", new Set(["a"]), new Set(["b"])],
    ["a map and a set", new Map(), new Set()],
    ["functions", () => 1, () => 1],
    ["inherited names", JSON.parse('{"__proto__":1}'), { a: 1 }],
    ["bytes", new Uint8Array([1]), new Uint8Array([2])],
  ])("tells apart %s", (_, a, b) => {
    expect(sameParameters(a, b)).toBe(false);
    expect(sameParameters(b, a)).toBe(false);
  });

  it("gives up on circles", () => {
    expect(sameParameters(circle(), circle())).toBe(false);
  });
});
