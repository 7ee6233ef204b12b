import { z } from "zod";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import { defineFilter, defineSaturationDetector } from "../../base/plugin/define.ts";
import { IN_FLIGHT_REQUESTS, IN_FLIGHT_TOKENS } from "../../base/plugin/keys.ts";
import type { Filter, SaturationDetector } from "../../base/plugin/kinds.ts";
import { headroom, headroomNotes } from "./headroom.ts";

const TYPE = "concurrency-detector";

const parameters = z.strictObject({
  maxConcurrency: z
    .int("maxConcurrency must be a whole number")
    .positive("maxConcurrency must be greater than 0")
    .default(100)
    .describe("Requests in flight at which an endpoint is saturated."),
  maxTokenConcurrency: z
    .int("maxTokenConcurrency must be a whole number")
    .positive("maxTokenConcurrency must be greater than 0")
    .default(1_000_000)
    .describe("Tokens in flight at which an endpoint is saturated."),
  concurrencyMode: z
    .enum(["requests", "tokens", "hybrid"], { error: "concurrencyMode must be requests, tokens or hybrid" })
    .default("requests")
    .describe("What counts: requests, tokens, or of each endpoint the one that is nearer to its limit (hybrid)."),
  headroom,
  inFlightLoadProducerName: z
    .string()
    .default("")
    .describe("Instance name of the producer of in-flight load; empty = the only one."),
});

type Settings = z.output<typeof parameters>;

/** What has no limit in a mode has this one. */
const NO_LIMIT = Number.POSITIVE_INFINITY;

/** The role in a profile: fails closed (scheduling 3.15). */
const concurrencyFilter = defineFilter({
  type: TYPE,
  describe: "Keeps endpoints with fewer requests or tokens in flight than their limit and its headroom.",
  parameters,
  requires: [IN_FLIGHT_REQUESTS, IN_FLIGHT_TOKENS],
  create: filterOf,
});

/** scheduling 5.3 */
export const concurrencyDetector = defineSaturationDetector({
  type: TYPE,
  describe:
    "Saturation from what this process has in flight, in relation to a limit per endpoint. In a profile it is a filter: it keeps endpoints under their limit, and with none left the request is refused.",
  parameters,
  inProfile: concurrencyFilter,
  notes: (settings) => headroomNotes(settings.headroom),
  create: (settings): SaturationDetector => {
    const { requests, tokens } = limitsOf(settings);
    return {
      saturation(endpoints: readonly Endpoint[]): number {
        if (endpoints.length === 0) return 1;
        let sum = 0;
        for (const { inFlight } of endpoints) sum += Math.max(inFlight.requests / requests, inFlight.tokens / tokens);
        return sum / endpoints.length;
      },
    };
  },
});

function limitsOf({ concurrencyMode, maxConcurrency, maxTokenConcurrency }: Settings) {
  return {
    requests: concurrencyMode === "tokens" ? NO_LIMIT : maxConcurrency,
    tokens: concurrencyMode === "requests" ? NO_LIMIT : maxTokenConcurrency,
  };
}

function filterOf(settings: Settings): Filter {
  const limits = limitsOf(settings);
  const maxRequests = withHeadroom(limits.requests, settings.headroom);
  const maxTokens = withHeadroom(limits.tokens, settings.headroom);
  return {
    filter({ candidates, keep }) {
      const requests = candidates.column(IN_FLIGHT_REQUESTS);
      const tokens = candidates.column(IN_FLIGHT_TOKENS);
      for (let i = 0; i < candidates.count; i++)
        if (!(requests[i]! < maxRequests && tokens[i]! < maxTokens)) keep[i] = 0;
    },
  };
}

/** Whole requests or tokens; a hair is added because 100 * (1 + 0.15) is 114.99999999999999. */
function withHeadroom(limit: number, share: number): number {
  return Math.floor(limit * (1 + share) * (1 + Number.EPSILON * 2));
}
