import type { Clock } from "../../base/clock/clock.ts";
import { isRefusedAtDoor } from "../../base/inference/outcomes.ts";
import { LabelGuard } from "../../base/telemetry/label-guard.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import type { InferenceCore } from "../../picker/core/inference-core.ts";
import type { UnopenedRequest } from "../../picker/exchange/request-log.ts";
import { type AccessEvents, isHealthCheck } from "../access/gatekeeper.ts";
import { jsonAnswer, type OwnAnswer } from "../proxy/local-answer.ts";

/** The most names of keys and tokens in labels; further ones count as `other`. */
const MAX_NAMES = 1000;
/** Milliseconds between two lines about refusals for one reason: who tries keys must not fill the disk. */
const LINE_EVERY = 1000;

/** What the keys of a gateway need of its core, and tell it. */
export function accessParts(core: InferenceCore, log: Logger, changed: () => void) {
  return { clock: core.clock, log, events: accessCounters(core.metrics), changed };
}

/** Counts what happens at the door. */
function accessCounters(metrics: Pick<Metrics, "gatewayAccessTotal" | "gatewayKeyRequestsTotal">): AccessEvents {
  const names = new LabelGuard(MAX_NAMES);
  return {
    admitted(by, { name }) {
      metrics.gatewayAccessTotal.with(by).inc();
      metrics.gatewayKeyRequestsTotal.with(names.admit(name)).inc();
    },
    refused: (reason) => metrics.gatewayAccessTotal.with(reason).inc(),
  };
}

/**
 * The label `outcome` of a request that was refused without an exchange. Who guesses keys must not look like a client that breaks
 * HTTP, and a fault of Sluice like neither.
 * @param slug the value of `x-gateway-error`
 */
export function outcomeOfUnopened(slug: string): "unauthorized" | "error" | "bad-request" {
  if (isRefusedAtDoor(slug.replaceAll("-", "_"))) return "unauthorized";
  return slug === "internal" ? "error" : "bad-request";
}

/** Passes on one request for each reason and second of those without a valid key, and all other requests. */
export function fewerRefusals(
  clock: Clock,
  write: (request: UnopenedRequest) => void,
): (request: UnopenedRequest) => void {
  const told = new Map<string, { at: number; suppressed: number }>();
  return (request) => {
    if (!isRefusedAtDoor(request.reason)) {
      write(request);
      return;
    }
    const now = clock.now();
    const last = told.get(request.reason);
    if (last !== undefined && now - last.at < LINE_EVERY) {
      last.suppressed++;
      return;
    }
    told.set(request.reason, { at: now, suppressed: 0 });
    write({ ...request, suppressed: last?.suppressed || undefined });
  };
}

/** Answers the health check of a client without a key: 200 while the gateway takes requests, else 503. */
export function ownHealth(isReady: () => boolean): OwnAnswer {
  return (head, client, caller) => {
    if (caller !== undefined || !isHealthCheck(head)) return undefined;
    const ready = isReady();
    return { ...jsonAnswer({ status: ready ? "ok" : "not ready" }, client.requestId), status: ready ? 200 : 503 };
  };
}

/** Asks one after the other. */
export function firstAnswer(...asked: readonly (OwnAnswer | undefined)[]): OwnAnswer {
  const all = asked.filter((one) => one !== undefined);
  return (head, client, caller) => {
    for (const one of all) {
      const answer = one(head, client, caller);
      if (answer !== undefined) return answer;
    }
    return undefined;
  };
}
