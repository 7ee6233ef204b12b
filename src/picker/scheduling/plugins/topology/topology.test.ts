import { describe, expect, it } from "vitest";
import {
  columnsOf,
  endpointOf,
  instanceOf,
  produceContextOf,
} from "../../../../../test/support/scheduling/fakes.cases.ts";
import { TOPOLOGY_HOST, TOPOLOGY_RACK, TOPOLOGY_REGION, TOPOLOGY_ZONE } from "../../../../base/plugin/keys.ts";
import { expectPick, type PickScene } from "../../../testing/expect-pick.ts";
import { alwaysDisaggPdDecider } from "../disagg/deciders.ts";
import { disaggProfileHandler } from "../disagg/profile-handlers.ts";
import { decodeFilter, prefillFilter } from "../labels.ts";
import { topologyAffinityFilter, topologyAffinityScorer } from "./topology-affinity.ts";
import { topologyExtractor } from "./topology-extractor.ts";

const ROLE = "llm-d.ai/role";
const place = (host: string, rack = "", zone = "", region = "") => ({
  "kubernetes.io/hostname": host,
  "topology.kubernetes.io/rack": rack,
  "topology.kubernetes.io/zone": zone,
  "topology.kubernetes.io/region": region,
});

/** Decode runs on host h1 in rack r1, zone z1, region g1. */
const DECODE = { name: "decode", labels: { [ROLE]: "decode", ...place("h1", "r1", "z1", "g1") } };
const prefill = (name: string, ...at: Parameters<typeof place>) => ({
  name,
  labels: { [ROLE]: "prefill", ...place(...at) },
});

/** Runs the profile `before` first. The profile `answer` then has its choice as the peer, and is the one that the record shows. */
const PREFILL_FIRST: PickScene["plugins"] = [
  topologyExtractor,
  alwaysDisaggPdDecider,
  [
    disaggProfileHandler,
    { parameters: { profiles: { decode: "answer", prefill: "before" }, stageOrder: "prefill-first" } },
  ],
];

function scene(prefillPlugins: readonly unknown[], endpoints: PickScene["endpoints"], more: object = {}) {
  return expectPick({
    plugins: [
      topologyExtractor,
      alwaysDisaggPdDecider,
      [disaggProfileHandler, { parameters: { deciders: { prefill: "always-disagg-pd-decider" }, ...more } }],
    ],
    profiles: { decode: [decodeFilter], prefill: [prefillFilter, ...(prefillPlugins as (typeof prefillFilter)[])] },
    endpoints: [DECODE, ...endpoints],
    seed: 3,
  });
}

describe("topology-extractor (scheduling 1.8)", () => {
  const keys = [TOPOLOGY_HOST, TOPOLOGY_RACK, TOPOLOGY_ZONE, TOPOLOGY_REGION];
  const producer = instanceOf(topologyExtractor);
  const numbers = (...endpoints: ReturnType<typeof endpointOf>[]) => {
    const columns = columnsOf(
      endpoints,
      keys.map((key) => [key, []] as const),
    );
    producer.produce(produceContextOf(columns));
    return keys.map((key) => [...columns.column(key).slice(0, endpoints.length)]);
  };

  it("gives equal places equal numbers, and unknown ones 0", () => {
    const [host, rack, zone, region] = numbers(
      endpointOf(0, { labels: place("a", "r", "z", "g") }),
      endpointOf(1, { labels: place("b", "r", "z", "") }),
      endpointOf(2, { labels: place("a", "q", "", "g") }),
      endpointOf(3),
    );
    expect(host![0]).toBe(host![2]);
    expect(new Set(host).size).toBe(3);
    expect(rack![0]).toBe(rack![1]);
    expect([rack![3], zone![2], region![1], region![3]]).toEqual([0, 0, 0, 0]);
    // The same text in two levels is not one place.
    const [hosts, racks] = numbers(endpointOf(4, { labels: place("same", "same") }));
    expect(hosts![0]).not.toBe(racks![0]);
  });

  it("takes the node of a pod without the label of its host", () => {
    const [host] = numbers(
      endpointOf(0, { labels: place("n1") }),
      endpointOf(1, { node: "n1" }),
      endpointOf(2, { node: "n2" }),
    );
    expect(host![0]).toBe(host![1]);
    expect(host![2]).not.toBe(host![1]);
  });

  it("follows changed labels, and another endpoint in the same slot", () => {
    const before = numbers(endpointOf(7, { labels: place("x") }), endpointOf(8, { labels: place("y") }))[0]!;
    const after = numbers(endpointOf(7, { labels: place("y") }), endpointOf(8, { labels: place("y") }))[0]!;
    expect(before[0]).not.toBe(before[1]);
    expect(after[0]).toBe(after[1]);
  });

  it("reads the labels that it is told", () => {
    const own = instanceOf(topologyExtractor, { hostname: "my/host", rack: "" });
    const columns = columnsOf(
      [endpointOf(0, { labels: { "my/host": "a" } }), endpointOf(1, { labels: place("a", "r") })],
      keys.map((key) => [key, []] as const),
    );
    own.produce(produceContextOf(columns));
    expect(columns.column(TOPOLOGY_HOST)[0]).toBeGreaterThan(0);
    expect(columns.column(TOPOLOGY_HOST)[1]).toBe(0);
    expect(columns.column(TOPOLOGY_RACK)[1]).toBeGreaterThan(0);
  });
});

describe("topology-affinity-scorer (scheduling 3.9)", () => {
  const others = (...endpoints: PickScene["endpoints"]) => scene([topologyAffinityScorer], endpoints).others["prefill"];

  it("prefers the endpoint nearest to the choice of the first profile", () => {
    const far = prefill("far", "h9", "r9", "z9", "g9");
    const region = prefill("region", "h9", "r9", "z9", "g1");
    const zone = prefill("zone", "h9", "r9", "z1", "g9");
    const rack = prefill("rack", "h9", "r1", "z9", "g9");
    const host = prefill("host", "h1", "r9", "z9", "g9");
    expect(others(far, region)).toBe("region");
    expect(others(far, zone, region)).toBe("zone");
    expect(others(rack, far, zone, region)).toBe("rack");
    expect(others(far, rack, zone, host, region)).toBe("host");
  });

  it("scores by the published curve", () => {
    const at = (name: string, key: string) => ({
      name,
      labels: {
        [ROLE]: "prefill",
        ...place("", "", "", ""),
        ...(key === "" ? {} : { [key]: DECODE.labels[key as keyof typeof DECODE.labels] }),
      },
    });
    const endpoints = [
      at("host", "kubernetes.io/hostname"),
      at("rack", "topology.kubernetes.io/rack"),
      at("zone", "topology.kubernetes.io/zone"),
      at("region", "topology.kubernetes.io/region"),
      at("none", ""),
    ];
    const pick = expectPick({
      plugins: PREFILL_FIRST,
      profiles: { before: [decodeFilter], answer: [prefillFilter, topologyAffinityScorer] },
      endpoints: [DECODE, ...endpoints],
      seed: 1,
    });
    expect(pick.scores["topology-affinity-scorer"]).toEqual({ host: 1, rack: 0.2, zone: 0.05, region: 0.02, none: 0 });
    pick.toBe("host").toRepeat();
  });

  it("scores 0 where no profile ran before", () => {
    const pick = expectPick({
      plugins: [topologyAffinityScorer],
      endpoints: [DECODE, prefill("same", "h1", "r1", "z1", "g1")],
      seed: 1,
    });
    expect(pick.scores["topology-affinity-scorer"]).toEqual({ decode: 0, same: 0 });
  });
});

describe("topology-affinity-filter (scheduling 3.15)", () => {
  const kept = (minAffinity: string | undefined, ...endpoints: PickScene["endpoints"]) => {
    const pick = expectPick({
      plugins: PREFILL_FIRST,
      profiles: {
        before: [decodeFilter],
        answer: [
          prefillFilter,
          [topologyAffinityFilter, { parameters: minAffinity === undefined ? {} : { minAffinity } }],
        ],
      },
      endpoints: [DECODE, ...endpoints],
      seed: 1,
    });
    return endpoints.map(({ name }) => name).filter((name) => pick.droppedBy[name] === undefined);
  };
  const host = prefill("host", "h1", "r9");
  const rack = prefill("rack", "h9", "r1");
  const zone = prefill("zone", "h9", "r9", "z1");
  const none = prefill("none", "h9", "r9", "z9", "g9");

  it("keeps what is at least as near as minAffinity, by default on the same host", () => {
    expect(kept(undefined, host, rack, zone, none)).toEqual(["host"]);
    expect(kept("", host, rack)).toEqual(["host"]);
    expect(kept("rack", host, rack, zone, none)).toEqual(["host", "rack"]);
    expect(kept("zone", host, rack, zone, none)).toEqual(["host", "rack", "zone"]);
  });

  it("keeps all where none is near, and where the first choice is nowhere known", () => {
    expect(kept("region", none, prefill("unknown", ""))).toEqual(["none", "unknown"]);
    const unknown = { name: "decode", labels: { [ROLE]: "decode" } };
    const pick = expectPick({
      plugins: PREFILL_FIRST,
      profiles: { before: [decodeFilter], answer: [prefillFilter, topologyAffinityFilter] },
      endpoints: [unknown, host, { name: "empty", labels: { [ROLE]: "prefill" } }],
      seed: 1,
    });
    expect(Object.values(pick.droppedBy)).not.toContain("topology-affinity-filter");
  });

  it("makes a prefill endpoint near the decode endpoint win over a better one far away", () => {
    const pick = scene([topologyAffinityFilter], [{ ...host }, { ...none }]);
    expect(pick.endpoint).toBe("decode");
    expect(pick.others).toEqual({ prefill: "host" });
    pick.toRepeat();
  });
});
