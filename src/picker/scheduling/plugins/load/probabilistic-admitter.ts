import { z } from "zod";
import { defineAdmitter } from "../../../../base/plugin/define.ts";
import type { Candidates } from "../../../../base/plugin/kinds.ts";

const parameters = z.strictObject({
  queueDepthThreshold: z
    .int()
    .min(1, { error: "must be greater than 0" })
    .default(5)
    .describe("Waiting requests at which an endpoint counts as saturated."),
  kvCacheUtilThreshold: z
    .number()
    .positive({ error: "must be greater than 0" })
    .default(0.8)
    .describe("KV-cache utilisation, 0 to 1, at which an endpoint counts as saturated."),
  power: z
    .number()
    .positive({ error: "must be greater than 0" })
    .default(5)
    .describe("Exponent of the saturation: how steeply the probability of a refusal rises."),
  k: z
    .number()
    .positive({ error: "must be greater than 0" })
    .default(300)
    .describe("Factor k: the probability of a refusal is k x saturation^power, at most 1."),
});

/** scheduling 3.16 */
export const probabilisticAdmitter = defineAdmitter({
  type: "probabilistic-admitter",
  describe:
    "Refuses requests of negative priority with a probability that rises with the saturation of the candidates. Admits all others.",
  parameters,
  create: ({ queueDepthThreshold, kvCacheUtilThreshold, power, k }) => ({
    admit({ request, candidates, random }) {
      if (request.priority >= 0 || candidates.count === 0) return undefined;
      const saturation = saturationOf(candidates, queueDepthThreshold, kvCacheUtilThreshold);
      const probability = Math.min(1, k * saturation ** power);
      if (random.next() >= probability) return undefined;
      return `sheddable request refused at saturation ${saturation.toFixed(3)}, probability ${probability.toFixed(2)}`;
    },
  }),
});

/** Returns the mean over the candidates. A candidate with stale metrics counts 1, as for the saturation detector. */
function saturationOf({ endpoints, fresh, count }: Candidates, queueDepth: number, kvCacheUtil: number): number {
  let sum = 0;
  for (let i = 0; i < count; i++) {
    const { waiting, kvUsage } = endpoints[i]!.metrics;
    const queue = waiting / queueDepth;
    const kv = kvUsage / kvCacheUtil;
    const load = kv > queue || Number.isNaN(queue) ? kv : queue;
    sum += fresh[i] === 0 || Number.isNaN(load) ? 1 : load;
  }
  return sum / count;
}
