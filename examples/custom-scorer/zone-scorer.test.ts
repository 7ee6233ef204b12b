import { test } from "node:test";
import { expectPick } from "sluice/plugin/testing";
import answerLength from "./long-answers.ts";
import zoneScorer from "./zone-scorer.ts";

const label = "topology.kubernetes.io/zone";
const endpoints = [
  { name: "east-1", labels: { [label]: "east" }, waiting: 8 },
  { name: "west-1", labels: { [label]: "west" } },
  { name: "west-2", labels: { [label]: "west" }, waiting: 2 },
];

test("the zone of the client wins over a short queue, and the queue decides within the zone", () => {
  const plugins = [[zoneScorer, { weight: 3 }] as const, "queue-scorer"];
  expectPick({ plugins, endpoints, request: { headers: { "x-zone": "east" } } })
    .toBe("east-1")
    .toRepeat();
  expectPick({ plugins, endpoints, request: { headers: { "x-zone": "west" } } }).toBeInOrder(["west-1", "west-2"]);
});

test("without the header all zones are equal", () => {
  expectPick({ plugins: [zoneScorer], endpoints }).toBeOneOf(["east-1", "west-1", "west-2"]);
});

test("header and label can be others", () => {
  const mine = [zoneScorer, { parameters: { header: "X-Region", label: "region" } }] as const;
  const labelled = endpoints.map((endpoint, at) => ({ ...endpoint, labels: { region: `r${at}` } }));
  const request = { headers: { "x-region": "r2" } };
  expectPick({ plugins: [mine], endpoints: labelled, request })
    .toBe("west-2")
    .toScore("zone-scorer", { "east-1": 0 });
});

test("long answers are refused", () => {
  const plugins = [[answerLength, { parameters: { maxTokens: 100 } }] as const, zoneScorer];
  expectPick({ plugins, endpoints, request: { maxTokens: 101 } }).toBeRefused("denied", "at most 100 tokens");
  expectPick({ plugins, endpoints, request: { maxTokens: 100, headers: { "x-zone": "east" } } }).toBe("east-1");
});
