import type { EndCause } from "../../exchange/wire.ts";

/** How a request ended, from what its exchange knows. */
export type TrafficOutcome = (typeof TRAFFIC_OUTCOMES)[number];

export const TRAFFIC_OUTCOMES = [
  "answered",
  "server-error",
  "refused",
  "cancelled",
  "interrupted",
  "unfollowed",
  "failed",
] as const;

/** @param succeeded whether the model server answered with a status of 2xx; undefined = it did not answer */
export function outcomeOf(cause: EndCause, succeeded: boolean | undefined): TrafficOutcome {
  switch (cause) {
    case "complete":
      // A complete exchange without an answer of a model server: the proxy answered in its place.
      return succeeded === true ? "answered" : "server-error";
    case "client-gone":
      return "cancelled";
    case "interrupted":
      return "interrupted";
    case "no-response-phase":
      return "unfollowed";
    case "rejected":
      return "refused";
    case "error":
      return "failed";
  }
}
