import { z } from "zod";
import { defineFilter, defineScorer } from "../../../../base/plugin/define.ts";
import { TOPOLOGY_HOST, TOPOLOGY_RACK, TOPOLOGY_REGION, TOPOLOGY_ZONE } from "../../../../base/plugin/keys.ts";
import type { DecisionContext } from "../../../../base/plugin/kinds.ts";

/** From near to far, with the score of each: what it costs to move a KV cache that far (scheduling 3.9). */
const LEVELS = [
  { name: "host", key: TOPOLOGY_HOST, score: 1 },
  { name: "rack", key: TOPOLOGY_RACK, score: 0.2 },
  { name: "zone", key: TOPOLOGY_ZONE, score: 0.05 },
  { name: "region", key: TOPOLOGY_REGION, score: 0.02 },
] as const;

const NAMES = LEVELS.map(({ name }) => name);
const KEYS = LEVELS.map(({ key }) => key);

const topologyProducerName = () =>
  z.string().default("").describe("Instance name of the topology-extractor; empty = the only one.");

/**
 * Calls `visit` with the nearest level that each candidate shares with the peer: an index into `LEVELS`, or `LEVELS.length`
 * for none. A place that is unknown equals no other. Without a peer it calls nothing.
 */
function compare({ candidates, peer }: DecisionContext, visit: (candidate: number, level: number) => void): void {
  if (peer === undefined) return;
  const columns = KEYS.map((key) => candidates.column(key));
  const places = KEYS.map((key) => peer.value(key) ?? 0);
  for (let i = 0; i < candidates.count; i++) {
    let level = 0;
    while (level < LEVELS.length && !(places[level]! > 0 && columns[level]![i] === places[level])) level++;
    visit(i, level);
  }
}

/** scheduling 3.15. It narrows a preference, so it never leaves a request without an endpoint. */
export const topologyAffinityFilter = defineFilter({
  type: "topology-affinity-filter",
  describe:
    "Keeps the endpoints near the choice of the first profile, such as prefill endpoints near the decode endpoint. If no endpoint is near, or no profile ran before, it keeps all.",
  parameters: z.strictObject({
    minAffinity: z
      .enum([...NAMES, ""], { error: `must be one of ${NAMES.join(", ")}` })
      .default("host")
      .describe("How near: the same `host`, `rack`, `zone` or `region`, or nearer."),
    topologyProducerName: topologyProducerName(),
  }),
  requires: KEYS,
  create: ({ minAffinity }) => {
    const farthest = Math.max(0, NAMES.indexOf(minAffinity as (typeof NAMES)[number]));
    return {
      filter(context) {
        const { keep, candidates } = context;
        let near = 0;
        compare(context, (candidate, level) => {
          if (level <= farthest) near++;
          else keep[candidate] = 0;
        });
        if (near === 0) keep.fill(1, 0, candidates.count);
      },
    };
  },
});

/** scheduling 3.9 */
export const topologyAffinityScorer = defineScorer({
  type: "topology-affinity-scorer",
  describe:
    "Prefers endpoints near the choice of the first profile. Scores: same host 1, same rack 0.2, same zone 0.05, same region 0.02, else 0. All score 0 if no profile ran before.",
  parameters: z.strictObject({ topologyProducerName: topologyProducerName() }),
  requires: KEYS,
  create: () => ({
    score(context) {
      compare(context, (candidate, level) => {
        context.out[candidate] = LEVELS[level]?.score ?? 0;
      });
    },
  }),
});
