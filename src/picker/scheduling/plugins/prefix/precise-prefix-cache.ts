import { z } from "zod";
import { defineProducer, defineScorer } from "../../../../base/plugin/define.ts";
import {
  PREFIX_BLOCK_TOKENS,
  PREFIX_CACHED_BLOCKS,
  PREFIX_MATCHED_BLOCKS,
  PREFIX_TOTAL_BLOCKS,
  PREFIX_UNCONFIRMED_BLOCKS,
  TOKENIZED_PROMPT,
} from "../../../../base/plugin/keys.ts";
import { zeroMqSockets } from "../../../kv-events/zeromq-sockets.ts";
import { tokenizersPoolConfig } from "../../tokens/local.ts";
import { tokenProducer } from "../token-producer.ts";
import { PrecisePrefixCache } from "./precise-cache.ts";
import { indexerConfig, preciseNotes, preciseParameters } from "./precise-parameters.ts";

/** scheduling 3.14 */
export const precisePrefixCacheProducer = defineProducer({
  type: "precise-prefix-cache-producer",
  describe:
    "Reads the KV-cache events of the engines, and publishes how much of a prompt each endpoint holds. Needs real tokens from a token-producer with a tokenizer.",
  parameters: z.strictObject(preciseParameters),
  produces: [
    PREFIX_MATCHED_BLOCKS,
    PREFIX_TOTAL_BLOCKS,
    PREFIX_BLOCK_TOKENS,
    PREFIX_CACHED_BLOCKS,
    PREFIX_UNCONFIRMED_BLOCKS,
  ],
  requires: [TOKENIZED_PROMPT],
  notes: preciseNotes,
  create: (parameters, context) => new PrecisePrefixCache(parameters, context, zeroMqSockets(context.clock)),
});

/** scheduling 3.9: the older form, a producer and a scorer in one. */
export const precisePrefixCacheScorer = defineScorer({
  type: "precise-prefix-cache-scorer",
  describe: "Deprecated: a precise-prefix-cache-producer and a prefix-cache-scorer in one.",
  deprecated: "write precise-prefix-cache-producer, with the same parameters, and prefix-cache-scorer",
  parameters: z.strictObject({
    ...preciseParameters,
    indexerConfig: indexerConfig
      .extend({ tokenizersPoolConfig: tokenizersPoolConfig.optional() })
      .prefault({})
      .describe(
        "As in precise-prefix-cache-producer. `tokenizersPoolConfig` adds a token-producer with the backend `local`: `modelName` and `local` are its parameters, `hf.tokenizersCacheDir` is its folder of models, and `uds.modelTokenizerMap` its map. Sluice downloads no files and uses no socket.",
      ),
    prefixMatchInfoProducerName: z
      .string()
      .default("precise-prefix-cache-producer")
      .describe("Instance name of the producer, if the file configures one."),
  }),
  requires: [PREFIX_MATCHED_BLOCKS, PREFIX_TOTAL_BLOCKS, PREFIX_CACHED_BLOCKS],
  companions: ({ prefixMatchInfoProducerName: _, indexerConfig: indexer, ...parameters }) => {
    const { tokenizersPoolConfig: pool, ...rest } = indexer;
    const cache = { definition: precisePrefixCacheProducer, parameters: { ...parameters, indexerConfig: rest } };
    return pool === undefined ? [cache] : [cache, { definition: tokenProducer, parameters: pool }];
  },
  notes: ({ indexerConfig: { tokenizersPoolConfig: _, ...indexer }, ...parameters }) =>
    preciseNotes({ ...parameters, indexerConfig: indexer }),
  create: () => ({
    score({ candidates, out }) {
      const matched = candidates.column(PREFIX_MATCHED_BLOCKS);
      const total = candidates.column(PREFIX_TOTAL_BLOCKS);
      for (let i = 0; i < candidates.count; i++) if (total[i]! > 0) out[i] = matched[i]! / total[i]!;
    },
  }),
});
