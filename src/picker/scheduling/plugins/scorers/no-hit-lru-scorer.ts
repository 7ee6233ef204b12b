import { z } from "zod";
import { defineScorer } from "../../../../base/plugin/define.ts";
import { COLD_USE_ORDER, PREFIX_MATCHED_BLOCKS } from "../../../../base/plugin/keys.ts";
import { lruSize, noHitLruProducer, prefixMatchInfoProducerName } from "../producers/no-hit-lru-producer.ts";

const parameters = z.strictObject({ lruSize, prefixMatchInfoProducerName });

/** scheduling 3.9.3. What it remembers is `no-hit-lru-producer`'s. */
export const noHitLruScorer = defineScorer({
  type: "no-hit-lru-scorer",
  describe:
    "Spreads prompts that no candidate holds: prefers the endpoint that took none for longest. A prompt that somebody holds scores 0.5 everywhere.",
  parameters,
  requires: [COLD_USE_ORDER, PREFIX_MATCHED_BLOCKS],
  companions: (parameters) => [{ definition: noHitLruProducer, parameters }],
  create: () => ({
    score({ candidates, out }) {
      const { count } = candidates;
      const order = candidates.column(COLD_USE_ORDER);
      const matched = candidates.column(PREFIX_MATCHED_BLOCKS);
      let unused = 0;
      for (let i = 0; i < count; i++) {
        if (matched[i]! > 0) {
          out.fill(0.5, 0, count);
          return;
        }
        if (order[i] === 0) unused++;
      }
      if (count === 1) {
        out[0] = 1;
        return;
      }
      let rank = 0;
      for (let i = 0; i < count; i++) {
        const behind = order[i] === 0 ? rank++ : unused + order[i]! - 1;
        out[i] = Math.max(0, 1 - behind / (count - 1));
      }
    },
  }),
});
