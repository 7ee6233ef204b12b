import type { Clock } from "../../base/clock/clock.ts";
import type { AnswerListener, CacheReport } from "../../base/inference/cache-report.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { Producer } from "../../base/plugin/kinds.ts";
import type { CandidateColumns } from "./candidates.ts";
import { type CallReporter, refusePromise } from "./plugin-calls.ts";
import type { ProfileMember } from "./profile.ts";
import type { OtherRun } from "./profile-runs.ts";

type Members = readonly ProfileMember<Producer>[];

const NO_OTHERS: ReadonlyMap<string, Endpoint> = new Map();

/**
 * Tells the producers which endpoint gets the request.
 * @param clock times the calls; undefined = no timing
 * @param columns of the primary profile, which producers may read here
 * @param primary name of that profile
 */
export function tellRouted(
  producers: Members,
  request: InferenceRequest,
  endpoint: Endpoint,
  others: readonly OtherRun[] | undefined,
  clock: Clock | undefined,
  calls: CallReporter,
  columns: CandidateColumns,
  primary: string,
): void {
  const firsts =
    others === undefined ? NO_OTHERS : new Map(others.map(({ profile, endpoints }) => [profile, endpoints[0]!]));
  for (const producer of producers) {
    if (producer.plugin.routed === undefined) continue;
    const started = clock?.now() ?? 0;
    columns.scope = producer.scope;
    try {
      refusePromise(producer.plugin.routed(request, endpoint, firsts, primary));
    } catch (error) {
      calls.failed("PreRequest", producer, error);
    }
    if (clock !== undefined) calls.called("PreRequest", producer, started);
  }
}

/** Tells the producers that a request they have seen gets no endpoint, so that they free its body at once. */
export function tellRefused(producers: Members, request: InferenceRequest, calls: CallReporter): void {
  for (const producer of producers) {
    if (producer.plugin.refused === undefined) continue;
    try {
      refusePromise(producer.plugin.refused(request));
    } catch (error) {
      calls.failed("PreRequest", producer, error);
    }
  }
}

/** @returns a function to call with the endpoint that served; undefined when no producer needs it */
export function servedListener(
  producers: Members,
  request: InferenceRequest,
  calls: CallReporter,
  columns: CandidateColumns,
): ((served: Endpoint) => void) | undefined {
  const told: ((served: Endpoint) => void)[] = [];
  for (const producer of producers) {
    if (producer.plugin.follow === undefined) continue;
    columns.scope = producer.scope;
    try {
      const call: unknown = producer.plugin.follow(request);
      refusePromise(call);
      if (typeof call === "function") told.push(watched(call as (served: Endpoint) => void, producer, calls));
    } catch (error) {
      calls.failed("PreRequest", producer, error);
    }
  }
  return told.length === 0 ? undefined : allOf(told);
}

/** @returns what hears of the answer; undefined when no producer wants to */
export function answerListener(
  producers: Members,
  request: InferenceRequest,
  calls: CallReporter,
  columns: CandidateColumns,
): Required<AnswerListener> | undefined {
  const told: Required<AnswerListener>[] = [];
  for (const producer of producers) {
    if (producer.plugin.listen === undefined) continue;
    columns.scope = producer.scope;
    try {
      const listener: unknown = producer.plugin.listen(request);
      refusePromise(listener);
      if (typeof listener === "object" && listener !== null)
        told.push(watchedListener(listener as AnswerListener, producer, calls));
    } catch (error) {
      calls.failed("PreRequest", producer, error);
    }
  }
  return told.length < 2 ? told[0] : allListeners(told);
}

// `watched` and `allOf` are functions of their own, because their results outlive the request. A closure inside
// `servedListener` would share its scope with the request, and so keep the body of every running exchange in memory.

function watched(
  call: (served: Endpoint) => void,
  producer: Members[number],
  calls: CallReporter,
): (served: Endpoint) => void {
  return (served) => {
    try {
      refusePromise(call(served));
    } catch (error) {
      calls.failed("PreRequest", producer, error);
    }
  };
}

function allOf(told: readonly ((served: Endpoint) => void)[]): (served: Endpoint) => void {
  return (served) => {
    for (const call of told) call(served);
  };
}

function watchedListener(
  listener: AnswerListener,
  producer: Members[number],
  calls: CallReporter,
): Required<AnswerListener> {
  const guarded = (call: () => unknown): void => {
    try {
      refusePromise(call());
    } catch (error) {
      calls.failed("ResponseComplete", producer, error);
    }
  };
  return {
    answered: () => guarded(() => listener.answered?.()),
    ended: (report) => guarded(() => listener.ended?.(report)),
  };
}

function allListeners(told: readonly Required<AnswerListener>[]): Required<AnswerListener> {
  return {
    answered: () => {
      for (const one of told) one.answered();
    },
    ended: (report: CacheReport | undefined) => {
      for (const one of told) one.ended(report);
    },
  };
}
