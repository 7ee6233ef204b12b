import { describe, expect, it } from "vitest";
import { z } from "zod";
import { Rejection } from "../../base/inference/outcomes.ts";
import {
  defineAdmitter,
  defineFilter,
  definePicker,
  defineProducer,
  defineProfileHandler,
  defineRequestHook,
  defineScorer,
  defineScreener,
} from "../../base/plugin/define.ts";
import { attributeKey, columnKey } from "../../base/plugin/keys.ts";
import { expectPick, filterWith, type PickScene, requestOf, scoreWith } from "./index.ts";

const zone = defineScorer({
  type: "zone-scorer",
  describe: "Prefers endpoints in the zone that a header names.",
  parameters: z.object({ header: z.string().default("x-zone") }),
  headers: ({ header }) => [header],
  create: ({ header }) => ({
    score({ request, candidates, out }) {
      const wanted = request.headers.get(header);
      for (let i = 0; i < candidates.count; i++) out[i] = candidates.endpoints[i]!.labels["zone"] === wanted ? 1 : 0;
    },
  }),
});
const idle = defineFilter({
  type: "idle-filter",
  describe: "Keeps endpoints where nothing waits.",
  create: () => ({
    filter({ candidates, keep }) {
      for (let i = 0; i < candidates.count; i++) if (candidates.waiting[i]! > 0) keep[i] = 0;
    },
  }),
});
const endpoints: PickScene["endpoints"] = [
  { name: "a", labels: { zone: "east" } },
  { name: "b", labels: { zone: "west" }, waiting: 3, kvUsage: 0.5 },
  { name: "c", labels: { zone: "east" }, waiting: 1, inFlight: 2 },
];
const request = { headers: { "X-Zone": "west" } };

/** The message that an assertion fails with. */
function failure(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error("it did not fail");
}

describe("expectPick", () => {
  it("runs plugins of the author and built-in ones as a profile does", () => {
    const pick = expectPick({ plugins: [[zone, { weight: 2 }], "queue-scorer"], endpoints, request });
    pick.toBe("b").toBeInOrder(["b", "a", "c"]).toScore("zone-scorer", { a: 0, b: 1 }).toRepeat();
    expect(pick.totals).toEqual({ a: 1, b: 2, c: 2 / 3 });
    expect(pick.scores["queue-scorer"]).toEqual({ a: 1, b: 0, c: 2 / 3 });
    expect(pick.tied).toEqual(["b"]);
    expect(pick.rejection).toBeUndefined();
  });

  it("says which endpoints were left out, and by whom", () => {
    const screener = defineScreener({
      type: "east",
      describe: "d",
      create: () => ({
        screen({ endpoints, keep }) {
          for (const [i, { labels }] of endpoints.entries()) if (labels["zone"] !== "east") keep[i] = 0;
        },
      }),
    });
    const pick = expectPick({ plugins: [screener, [idle, { name: "mine" }], zone], endpoints });
    pick.toBe("a").toDrop("east", ["b"]).toDrop("mine", ["c"]);
    expect(pick.droppedBy).toEqual({ b: "east", c: "mine" });
    expect(pick.scores).toEqual({ "zone-scorer": { a: 0 } });
  });

  it("tells refusals: of an admitter, of filters that leave nobody, of a pool without endpoints", () => {
    const admitter = defineAdmitter({
      type: "no-zone",
      describe: "d",
      create: () => ({ admit: ({ request: { headers } }) => (headers.get("x-zone") ? undefined : "name a zone") }),
    });
    expectPick({ plugins: [admitter, zone], endpoints }).toBeRefused("denied", "name a zone");
    expectPick({ plugins: [admitter, zone], endpoints, request }).toBe("b");
    const busy = [{ name: "a", waiting: 1 }];
    const none = expectPick({ plugins: [idle], endpoints: busy })
      .toBeRefused("no_target")
      .toDrop("idle-filter", ["a"]);
    expect(none.rejection).toBeInstanceOf(Rejection);
    expect(none.endpoint).toBeUndefined();
    expectPick({ plugins: [idle], endpoints: [] }).toBeRefused("no_endpoints");
  });

  it("makes the producers that are required, and takes what they prepared", () => {
    const key = columnKey("price");
    const currency = attributeKey<string>("currency");
    const producer = defineProducer({
      type: "prices",
      describe: "d",
      produces: [key, currency],
      create: () => ({
        prepare: async () => [9, 1, 5],
        produce({ candidates, prepared, setAttribute }) {
          candidates.column(key).set(prepared as number[]);
          setAttribute(currency, "EUR");
        },
      }),
    });
    const cheap = defineScorer({
      type: "cheap",
      describe: "d",
      requires: [key],
      optional: [currency],
      create: () => ({
        score({ candidates, attribute, out }) {
          const prices = candidates.column(key);
          if (attribute(currency) === "EUR") for (let i = 0; i < candidates.count; i++) out[i] = 1 / prices[i]!;
        },
      }),
    });
    const prepared = { prices: [9, 1, 5] };
    expectPick({ plugins: [producer, cheap], endpoints, prepared })
      .toBe("b")
      .toScore("cheap", { c: 0.2 });
    expectPick({ plugins: ["active-request-scorer"], endpoints }).toBeOneOf(["a", "b"]);
    expect(failure(() => expectPick({ plugins: [cheap], endpoints }))).toMatch(/no producer for key price/);
  });

  it("remembers earlier requests", () => {
    const prompt = "a long prompt, ".repeat(100);
    const plugins = ["prefix-cache-scorer"];
    const first = expectPick({ plugins, endpoints, request: { prompt } });
    expect(first.tied).toHaveLength(3);
    const next = expectPick({ plugins, endpoints, request: { prompt: `${prompt}And so on.` }, earlier: [{ prompt }] });
    expect(next.tied).toHaveLength(1);
    next.toBe(first.endpoint!);
  });

  it("runs several profiles for a handler", () => {
    const handler = defineProfileHandler({
      type: "pairs",
      describe: "d",
      create: () => ({
        pick: ({ profiles, results }) => (results.size === 0 ? profiles : []),
        processResults: () => "main",
      }),
    });
    const profiles = { main: [zone], other: ["queue-scorer"] };
    const pick = expectPick({ plugins: [handler], profiles, endpoints, request })
      .toBe("b")
      .toRepeat();
    expect(pick.others).toEqual({ other: "a" });
    expect(failure(() => expectPick({ plugins: [handler, idle], profiles, endpoints }))).toBe(
      "idle-filter is in no profile; move it into one of `profiles`",
    );
  });

  it("fails where chance decided, unless it was to", () => {
    const east = { headers: { "x-zone": "east" } };
    const scene = { plugins: [zone], endpoints, request: east };
    expectPick(scene).toBeOneOf(["c", "a"]);
    const { endpoint = "" } = expectPick({ ...scene, seed: 7 });
    expectPick({ ...scene, seed: 7 }).toBe(endpoint);
    const lucky = expectPick(scene).endpoint!;
    expect(failure(() => expectPick(scene).toBe(lucky))).toMatch(/but by chance among [ac], [ac]; assert toBeOneOf/);
  });
});

describe("a failing assertion", () => {
  const pick = expectPick({ plugins: [[zone, { weight: 2 }], "queue-scorer", idle], endpoints });
  it("shows the decision", () => {
    expect(failure(() => pick.toBe("b"))).toBe(
      [
        "expected b to be picked, but a was",
        "",
        "   endpoint  zone-scorer x 2  queue-scorer x 1  total",
        "1  a                       0                 1      1",
        "   b: left out by idle-filter",
        "   c: left out by idle-filter",
      ].join("\n"),
    );
  });

  it.each([
    [() => pick.toBeInOrder(["a", "c"]), "expected the order a, c, but it is a"],
    [() => pick.toBeOneOf(["a", "b"]), "expected the pick to be one of a, b, but it is one of a"],
    [() => pick.toScore("zone", { a: 1 }), "there is no scorer zone; there are zone-scorer, queue-scorer"],
    [() => pick.toScore("zone-scorer", { a: 1 }), "expected zone-scorer to give a 1, but it gave 0"],
    [() => pick.toScore("zone-scorer", { b: 1 }), "expected zone-scorer to give b 1, but it was not scored"],
    [() => pick.toDrop("idle-filter", ["b"]), "expected idle-filter to leave out b, but it left out b, c"],
    [() => pick.toBeRefused("denied"), "expected the request to be refused (denied), but a was"],
    [
      () => expectPick({ plugins: [zone], endpoints: [] }).toBe("a"),
      "expected a to be picked, but the request was refused (no_endpoints): failed to find endpoint candidates for serving the request",
    ],
    [
      () => expectPick({ plugins: [zone], endpoints: [] }).toBeRefused("no_endpoints", "zone"),
      'expected the client to get "zone", but it gets "failed to find endpoint candidates for serving the request"',
    ],
  ])("says what was expected and what is: %#", (run, message) => {
    expect(failure(run).split("\n")[0]).toBe(message);
  });

  it("notices a decision that does not repeat: here a header that is not declared", () => {
    const { headers: _, ...undeclared } = zone;
    expect(failure(() => expectPick({ plugins: [undeclared], endpoints, request }).toRepeat())).toMatch(
      /; the total of default\/b was 1, now it is 0; is a header missing in `headers`/,
    );
  });
});

describe("a wrong scene", () => {
  const failing = defineScorer({
    type: "failing",
    describe: "d",
    create: () => ({
      score() {
        throw new Error("no such label");
      },
    }),
  });
  const hook = defineRequestHook({ type: "hook", describe: "d", create: () => ({}) });
  const greedy = definePicker({
    type: "greedy",
    describe: "d",
    create: () => ({ maxNumOfEndpoints: 1, pick: () => 1 }),
  });
  it.each([
    [{ plugins: [failing] }, "plugin failing threw (Scorer): no such label"],
    [{ plugins: ["queue-scorrer"] }, /^there is no built-in plugin type queue-scorrer; known are /],
    [
      { plugins: [hook] },
      "hook is a request-hook and takes no part in a decision; call its methods in the test instead",
    ],
    [
      { plugins: [[zone, { parameters: { header: 7 } }]] },
      /^wrong parameters of zone-scorer: header: .*expected string/,
    ],
    [{ plugins: [[zone, { parameters: { haeder: "x" } }]] }, /^wrong parameters of zone-scorer: .*"haeder"/],
    [{ plugins: [zone, zone] }, "duplicate plugin name zone-scorer"],
    [{ plugins: [greedy, "random-picker"] }, /^already have a registered picker plugin: greedy/],
    [
      { plugins: [zone], endpoints: [{ name: "a" }, { name: "a" }] },
      "two endpoints are called a; give each a different name",
    ],
  ] satisfies readonly (readonly [Partial<PickScene>, string | RegExp])[])(
    "says what is wrong: %#",
    (scene, message) => {
      const said = failure(() => expectPick({ endpoints, ...scene }));
      if (typeof message === "string") expect(said).toBe(message);
      else expect(said).toMatch(message);
    },
  );
});

describe("one plugin alone", () => {
  it("is a scorer with its scores", () => {
    expect(scoreWith(zone, { endpoints, request })).toEqual({ a: 0, b: 1, c: 0 });
    expect(scoreWith([zone, { name: "mine", parameters: { header: "x-near" } }], { endpoints, request })).toEqual({
      a: 0,
      b: 0,
      c: 0,
    });
  });

  it("is a filter with those it keeps, which may be none", () => {
    expect(filterWith(idle, { endpoints })).toEqual(["a"]);
    expect(filterWith(idle, { endpoints: [{ name: "x", waiting: 1 }] })).toEqual([]);
  });
});

describe("a sketch", () => {
  it("of a server that does not answer is what plugins see of one", () => {
    const unknown = [
      { name: "a", metricsAge: Number.POSITIVE_INFINITY },
      { name: "b", waiting: 9 },
      { name: "c", waiting: 0, metricsAge: 5000 },
    ];
    // Unknown and stale count as the worst known.
    expect(filterWith(idle, { endpoints: unknown })).toEqual([]);
    expect(scoreWith("queue-scorer", { endpoints: [...unknown, { name: "d", waiting: 1 }] })).toEqual({
      a: 0,
      b: 0,
      c: 0,
      d: 1,
    });
    expectPick({
      plugins: ["lora-affinity-scorer"],
      endpoints: [{ name: "a" }, { name: "b", lora: { running: ["poet"], max: 2 } }],
      request: { model: "poet" },
    }).toBe("b");
  });

  it("of a request is what hooks see of one", () => {
    const { headers, priority, shedAt, prompts, body } = requestOf({
      prompt: "hi",
      priority: -1,
      headers: { "X-A": "1" },
    });
    expect([headers.get("x-a"), priority, shedAt, prompts, body.length]).toEqual([
      "1",
      -1,
      1,
      [[{ start: 0, end: 2 }]],
      2,
    ]);
  });
});

describe("a test with a mistake", () => {
  it.each([
    [
      "an endpoint",
      { endpoints: [{ name: "a", prot: 8000 }] },
      "the endpoint a: unknown key `prot`; did you mean `port`?",
    ],
    ["the request", { endpoints, request: { promt: "x" } }, "the request: unknown key `promt`; did you mean `prompt`?"],
    ["the scene", { endpoints, requests: request }, "the scene: unknown key `requests`; did you mean `request`?"],
  ])("names an unknown key of %s", (_, scene, message) => {
    expect(failure(() => expectPick({ plugins: [zone], ...scene } as PickScene))).toBe(message);
  });

  it("names a scorer that returns its scores instead of writing them; what fill returns is no mistake", () => {
    const returns = defineScorer({
      type: "returning-scorer",
      describe: "Returns scores.",
      create: () => ({ score: (() => [1, 0, 0]) as never }),
    });
    expect(failure(() => expectPick({ plugins: [returns], endpoints }))).toContain(
      "it must write the score of candidate i to `out[i]`",
    );
    const fills = defineScorer({
      type: "filling-scorer",
      describe: "Fills.",
      create: () => ({ score: (({ out }: { out: Float64Array }) => out.fill(1)) as never }),
    });
    expect(scoreWith(fills, { endpoints })).toEqual({ a: 1, b: 1, c: 1 });
  });
});
