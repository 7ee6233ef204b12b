import type { IncomingHttpHeaders } from "node:http";
import { messageOf } from "../../base/inference/errors.ts";
import { FAILURE_TYPES, injectedFailure, SimApiError } from "./api-error.ts";
import type { SimContext } from "./context.ts";
import { type SimOptions, withFaults } from "./options.ts";

const PREFIX = "x-sim-";

/**
 * The settings for one request: those of the server, changed by the request's `X-Sim-*` headers (`X-Sim-Drop-After-Tokens: 3`).
 * @throws SimApiError 400 for a header with an unknown fault or a wrong value
 */
export function settingsFor(context: SimContext, headers: IncomingHttpHeaders): SimOptions {
  let changes: Record<string, unknown> | undefined;
  for (const name in headers) {
    if (!name.startsWith(PREFIX)) continue;
    const option = name.slice(PREFIX.length);
    changes ??= {};
    changes[option] = option === "failure-types" ? words(headers[name]) : headers[name];
  }
  if (!changes) return context.settings;
  try {
    return withFaults(context.settings, changes);
  } catch (error) {
    throw new SimApiError(400, `X-Sim-* header: ${messageOf(error)}`);
  }
}

/**
 * Counts an inference request, and fails the request if a fault applies.
 * @throws SimApiError the failure
 */
export function failIfDue(context: SimContext, settings: SimOptions, headers: IncomingHttpHeaders): void {
  context.inferenceRequests++;
  const wanted = headers["x-return-error"];
  if (wanted !== undefined) {
    const status = Number(wanted);
    if (!Number.isInteger(status) || status < 400 || status > 599) {
      throw new SimApiError(400, "X-Return-Error must be a status from 400 to 599");
    }
    throw new SimApiError(status, `Error ${status} as the request asked for`);
  }
  if (context.inferenceRequests <= settings.errorUntil) {
    throw new SimApiError(
      503,
      `Failing the first ${settings.errorUntil} requests, this is ${context.inferenceRequests}`,
    );
  }
  const rate = settings.failureInjectionRate;
  if (rate > 0 && context.random.next() * 100 < rate) {
    const types = settings.failureTypes.length > 0 ? settings.failureTypes : FAILURE_TYPES;
    throw injectedFailure(types[context.random.below(types.length)]!, context.modelNames[0]!);
  }
}

function words(value: string | string[] | undefined): string[] {
  return String(value)
    .split(",")
    .map((word) => word.trim());
}
