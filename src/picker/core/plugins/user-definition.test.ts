import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import {
  defineFairnessPolicy,
  defineFilter,
  definePicker,
  defineProducer,
  defineRequestHook,
  defineScorer,
} from "../../../base/plugin/define.ts";
import type { PluginContext, PluginDefinition } from "../../../base/plugin/kinds.ts";
import { silentLogger } from "../../../base/telemetry/logger.ts";
import { watched } from "./user-definition.ts";

const context: PluginContext = {
  name: "zone",
  clock: new VirtualClock(),
  random: new SeededRandom(1),
  log: silentLogger,
  plugin: () => undefined as never,
};

/** What a definition of the user makes, or the message that says why it makes nothing. */
function made(definition: PluginDefinition): unknown {
  try {
    return watched(definition, "./m.ts", "/etc/m.ts", "c0de").create({}, context);
  } catch (error) {
    expect(error).toBeInstanceOf(SluiceError);
    expect((error as SluiceError).code).toBe("PLUGIN_CREATE");
    return (error as Error).message;
  }
}

const base = { type: "mine", describe: "d" };
/** As an author without a type check may write. */
const scorer = (create: unknown): PluginDefinition => defineScorer({ ...base, create: create as never });

describe("a fairness policy of the user", () => {
  const policy = (choice: unknown, more: object = {}): PluginDefinition =>
    defineFairnessPolicy({ ...base, create: () => ({ choice: () => choice, ...more }) as never });
  const whole = { joined() {}, left() {}, next: () => null, served() {} };

  it("is made as it is where its choice has all methods, and where it needs no choice", () => {
    expect(made(policy(whole))).toHaveProperty("choice");
    expect(made(policy({ ...whole, holds: () => false, dispatched: () => 0, ended() {} }))).toHaveProperty("choice");
    expect(made(policy(undefined, { oneQueue: true }))).toHaveProperty("choice");
  });

  it.each([
    ["joined", { ...whole, joined: undefined }, "has no method joined"],
    ["left", { ...whole, left: 1 }, "has no method left"],
    ["next", { ...whole, next: undefined }, "has no method next"],
    ["served", { ...whole, served: undefined }, "has no method served"],
    ["holds", { ...whole, holds: true }, "has no method holds"],
    ["dispatched", { ...whole, dispatched: async () => 0 }, "its method dispatched is asynchronous"],
    ["ended", { ...whole, ended: "no" }, "has no method ended"],
  ])("is refused at the start for a choice whose %s is wrong", (_, choice, problem) => {
    expect(made(policy(choice))).toContain(problem);
  });

  it("is refused at the start for a choice that is no object, or cannot be made", () => {
    expect(made(policy(undefined))).toContain("its method choice must return an object");
    const failing = (): never => {
      throw new Error("no tenants");
    };
    expect(made(policy(undefined, { choice: failing }))).toContain("no tenants");
  });
});

describe("a plugin of the user", () => {
  it("is made as it is where it can take part", () => {
    const instance = { score() {} };
    expect(made(scorer(() => instance))).toBe(instance);
    const producer = { produce() {}, prepare: async () => 1 };
    expect(made(defineProducer({ ...base, create: () => producer }))).toBe(producer);
    expect(made(defineRequestHook({ ...base, create: () => ({}) }))).toEqual({});
  });

  it("stays one plugin however often it is looked at", () => {
    const definition = scorer(() => ({ score() {} }));
    expect(watched(definition, "./a.ts", "/a.ts", "1")).toBe(watched(definition, "./b.ts", "/b.ts", "2"));
  });

  it("is refused at the start where its create fails, with the names of plugin and module", () => {
    const failing = scorer(() => {
      throw new Error("no zone\nanywhere");
    });
    expect(made(failing)).toBe("plugin zone (type: mine, of ./m.ts): create failed: no zone anywhere");
    const house = scorer(() => {
      throw new SluiceError("PLUGIN_UNKNOWN", "there is no decider");
    });
    expect(made(house)).toBe("plugin zone (type: mine, of ./m.ts): create failed: there is no decider");
    expect(() => defineScorer(base as never)).toThrow(
      "the plugin mine has no create, the function that returns its methods",
    );
  });

  it.each<readonly [string, () => unknown, string]>([
    ["references", () => "d", "must return a list of references"],
    ["companions", () => undefined, "must return a list of plugins"],
    ["headers", () => ["x-a", 5], "must return a list of names"],
    ["notes", () => "careful", "must return a list of sentences"],
    ["alsoFilter", () => true, "must return a filter or undefined"],
    ...["references", "companions", "headers", "notes", "alsoFilter"].map((name) => {
      const broken = () => {
        throw new TypeError("no such zone");
      };
      return [name, broken, "failed: no such zone"] as const;
    }),
  ])("says whose %s are wrong while the configuration is read", (name, tell, message) => {
    const source = { ...base, create: () => ({ score() {} }), [name]: tell };
    const told = watched(defineScorer(source), "./m.ts", "/etc/m.ts", "c0de")[name as "notes"];
    expect(() => told?.({})).toThrow(`the plugin type mine of ./m.ts: its ${name} ${message}`);
  });

  it("is refused where not even looking at it works", () => {
    const shy = scorer(() => ({
      get score() {
        throw new Error("look away");
      },
    }));
    expect(made(shy)).toBe("plugin zone (type: mine, of ./m.ts): the object from create cannot be read: look away");
  });

  it("is refused at the start where it could not take part, instead of failing in every decision", () => {
    const head = "plugin zone (type: mine, of ./m.ts): ";
    expect(made(scorer(() => undefined))).toBe(
      `${head}create returned undefined; it must return the plugin, an object`,
    );
    expect(made(scorer(() => null))).toBe(`${head}create returned null; it must return the plugin, an object`);
    expect(made(scorer(async () => ({ score() {} })))).toBe(
      `${head}create is asynchronous; it must return the plugin itself`,
    );
    expect(made(scorer(() => ({ scores() {} })))).toBe(
      `${head}the object from create has no method score, which a scorer needs`,
    );
    expect(made(definePicker({ ...base, create: () => ({ pick: () => 1 }) as never }))).toBe(
      `${head}the object from create has no maxNumOfEndpoints: the number of endpoints for the proxy, 1 or more`,
    );
    expect(made(defineProducer({ ...base, create: () => ({ produce() {}, close: true }) as never }))).toBe(
      `${head}the object from create has a close that is not a function; Sluice calls close when the plugin is no longer needed`,
    );
    for (const ready of [true, async () => true])
      expect(made(defineProducer({ ...base, create: () => ({ produce() {}, ready }) as never }))).toBe(
        `${head}the object from create has a ready that is not a synchronous function; ready must return whether the plugin is ready`,
      );
    for (const prepareBudget of [Number.NaN, 0, "400"])
      expect(made(defineProducer({ ...base, create: () => ({ produce() {}, prepareBudget }) as never }))).toBe(
        `${head}the object from create has a prepareBudget that is not a number above 0: the milliseconds that prepare may take`,
      );
    const late = "is asynchronous, but a decision does not wait; wait in `prepare` of a producer instead";
    expect(made(defineFilter({ ...base, create: () => ({ async filter() {} }) }))).toBe(
      `${head}its method filter ${late}`,
    );
    expect(made(defineProducer({ ...base, create: () => ({ produce() {}, async routed() {} }) }))).toBe(
      `${head}its method routed ${late}`,
    );
  });
});
