import { z } from "zod";
import { MOST_LEAN } from "../../../../base/inference/endpoint.ts";
import { type InferenceRequest, promptTokens } from "../../../../base/inference/request.ts";
import { defineProducer } from "../../../../base/plugin/define.ts";
import {
  IN_FLIGHT_REQUESTS,
  IN_FLIGHT_TOKENS,
  PREFIX_BLOCK_TOKENS,
  PREFIX_MATCHED_BLOCKS,
  PREFIX_TOTAL_BLOCKS,
  TOKENIZED_PROMPT,
  UNCACHED_TOKENS,
} from "../../../../base/plugin/keys.ts";

const parameters = z.strictObject({
  addEstimatedOutputTokens: z
    .boolean()
    .default(false)
    .describe("Add the estimated output tokens of a request to the prompt tokens that it must compute."),
  outputRatio: z.number().min(0).default(1.5).describe("Estimated output tokens per input token."),
  maxEstimatedOutputTokens: z
    .number()
    .min(0)
    .optional()
    .describe("The highest estimate of output tokens. The limit in the request also applies."),
  prefixMatchInfoProducerName: z
    .string()
    .default("")
    .describe("Instance name of the producer of prefix matches; empty = the only producer, if any."),
  syncCrossReplicaState: z
    .boolean()
    .default(true)
    .describe("Also count the load in flight of other replicas of this picker, if they share it."),
});

/**
 * scheduling 3.12. Each endpoint has its counts (`Endpoint.inFlight`). The exchange keeps them from routing to the last byte,
 * so each decision sees the one before it. Where replicas share their load, the counts include that of the peers, and what they
 * have probably sent since they said so.
 */
export const inflightLoadProducer = defineProducer({
  type: "inflight-load-producer",
  describe:
    "Publishes the requests and tokens that the replicas of this picker have in flight at each endpoint, and the tokens that this request would add.",
  parameters,
  produces: [IN_FLIGHT_REQUESTS, IN_FLIGHT_TOKENS, UNCACHED_TOKENS],
  optional: [TOKENIZED_PROMPT, PREFIX_MATCHED_BLOCKS, PREFIX_TOTAL_BLOCKS, PREFIX_BLOCK_TOKENS],
  create: ({
    addEstimatedOutputTokens,
    outputRatio,
    maxEstimatedOutputTokens = Number.POSITIVE_INFINITY,
    syncCrossReplicaState,
  }) => ({
    estimatesOutput: addEstimatedOutputTokens,
    produce(context) {
      const { request, candidates } = context;
      const { endpoints, count } = candidates;
      const requests = candidates.column(IN_FLIGHT_REQUESTS);
      const tokens = candidates.column(IN_FLIGHT_TOKENS);
      const uncached = candidates.column(UNCACHED_TOKENS);
      const matched = candidates.optionalColumn(PREFIX_MATCHED_BLOCKS);
      const total = candidates.optionalColumn(PREFIX_TOTAL_BLOCKS);
      const blockTokens = candidates.optionalColumn(PREFIX_BLOCK_TOKENS);
      const input = context.attribute(TOKENIZED_PROMPT)?.count ?? promptTokens(request);
      const output = addEstimatedOutputTokens
        ? Math.min(estimatedOutput(request, input * outputRatio), maxEstimatedOutputTokens)
        : 0;
      let holder: number | undefined;
      for (let i = 0; i < count; i++) {
        if (matched === undefined || total === undefined || blockTokens === undefined) uncached[i] = input + output;
        else {
          const hashed = Math.max(0, total[i]! - matched[i]!) * blockTokens[i]!;
          uncached[i] = hashed + Math.max(0, input - total[i]! * blockTokens[i]!) + output;
        }
        const { inFlight, peers } = endpoints[i]!;
        requests[i] = inFlight.requests;
        tokens[i] = inFlight.tokens;
        if (peers !== undefined && syncCrossReplicaState) {
          const unseen = peers.unseen(candidates.now);
          requests[i]! += unseen.requests;
          tokens[i]! += unseen.tokens;
          const { lean } = peers;
          // Where a prompt belongs, replicas do not share it out.
          if (lean.tokens === 0) continue;
          holder ??= matched === undefined ? NONE : onlyBest(matched, count);
          if (i === holder) continue;
          requests[i]! += lean.requests;
          // The request may have to wait for one that a peer has just sent, and that one for it.
          tokens[i]! += lean.tokens + lean.share * Math.min(MOST_LEAN, uncached[i]!);
        } else if (peers !== undefined) {
          requests[i]! -= peers.requests;
          tokens[i]! -= peers.tokens;
        }
      }
    },
  }),
});

const NONE = -1;

/** Returns the candidate that alone has the most blocks of the prompt; `NONE` where several have as many. */
function onlyBest(matched: Float64Array, count: number): number {
  let best = NONE;
  let most = 0;
  for (let i = 0; i < count; i++) {
    const blocks = matched[i]!;
    if (blocks < most) continue;
    best = blocks > most ? i : NONE;
    most = blocks;
  }
  return best;
}

/** Returns the estimate, or the request's own limit if that is lower. */
function estimatedOutput({ maxTokens }: InferenceRequest, estimate: number): number {
  return maxTokens < estimate ? maxTokens : Math.round(estimate);
}
