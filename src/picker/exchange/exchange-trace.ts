import { HeaderList } from "../../base/inference/headers.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { Span, SpanAttributes, Tracing } from "../../base/telemetry/tracing.ts";
import type { Ticket } from "../flowcontrol/flow-control.ts";
import type { DecisionTrace, TracedStep } from "../scheduling/plugin-calls.ts";
import { spanText } from "./span-text.ts";
import { showWait } from "./wait-span.ts";
import type { EndCause, Routed } from "./wire.ts";

/** The headers that carry a trace between services (W3C trace context and baggage). */
const CARRIERS = ["traceparent", "tracestate", "baggage"] as const;

/** The header that names the prefill endpoint to a model server (scheduling 3.7.1). */
const PREFILLER = "x-prefiller-host-port";
const ENCODERS = "x-encoder-hosts-ports";

/**
 * The spans of one exchange: `gateway.request` from its headers to its end, and in it `gateway.request_orchestration` with the
 * decision (scheduling 9.1), and before the decision the wait in flow control. An unsampled exchange has only the first. Spans contain no prompt text, and names and ids of
 * bounded length.
 */
export class ExchangeTrace {
  readonly #span: Span;
  readonly #id: string;
  /** The client sent a `tracestate`. */
  readonly #carried: boolean;
  #orchestration: Span | undefined;
  #steps: StepSpans | undefined;
  #disaggregation: Span | undefined;

  /** @param headers of the request, with the trace that it belongs to @param id of the request */
  constructor(tracing: Tracing, headers: HeaderList, id: string) {
    const carrier = carrierOf(headers);
    this.#carried = carrier["tracestate"] !== undefined;
    this.#id = spanText(id);
    this.#span = tracing.start("gateway.request", carrier, { "gen_ai.request.id": this.#id }, "server");
  }

  /**
   * The request is complete, and the decision begins.
   * @returns the receiver of the steps; undefined when the trace is not sampled
   */
  deciding(): DecisionTrace | undefined {
    if (!this.#span.sampled) return undefined;
    const common = { "gen_ai.request.id": this.#id };
    this.#orchestration = this.#span.child("gateway.request_orchestration", common, "server");
    this.#steps = new StepSpans();
    return this.#steps;
  }

  /** The wait in flow control is over. @param refusal undefined = the request goes on */
  waited(request: InferenceRequest, ticket: Ticket, refusal: Rejection | undefined): void {
    if (this.#span.sampled) showWait(this.#span, request, ticket, refusal);
  }

  /** Flow control ends the request to make room for others (scheduling 6.9). */
  evicted(): void {
    this.#span.event("sluice.evicted");
  }

  /** The decision is made: routed or refused. */
  decided({ targetModel, priority }: InferenceRequest): void {
    const span = this.#orchestration;
    if (span === undefined) return;
    const model = spanText(targetModel);
    const common = { "gen_ai.request.id": this.#id, "gen_ai.request.model": model };
    for (const each of [this.#span, span]) each.attribute("gen_ai.request.model", model);
    span.attribute("target_model", model);
    span.attribute("request_prio", priority);
    this.#steps?.show(span, common);
    if (this.#steps?.disaggregated) this.#disaggregation = span.child("prepare_disaggregation", common);
  }

  /** The request gets this rejection instead of an endpoint. */
  refused({ code }: Rejection): void {
    this.#orchestration?.fail(code);
    this.#endDeciding();
  }

  /** @returns the decision with the headers that make the model server a part of the trace */
  forwarded(routed: Routed): Routed {
    const told = this.#disaggregation;
    if (told !== undefined)
      for (const [name, value] of Object.entries(disaggregation(routed.headers))) told.attribute(name, value);
    this.#endDeciding();
    const trace = new HeaderList();
    this.#span.inject((name, value) => trace.add(name, value));
    // A `tracestate` belongs to its `traceparent`. If Sluice could not read that, the state must not go on.
    if (!this.#carried || trace.get("tracestate") !== undefined) return { ...routed, trace };
    return { ...routed, trace, removed: [...(routed.removed ?? []), "tracestate"] };
  }

  /**
   * The exchange is over.
   * @param error its code in `request_error_total`; undefined when it is no error
   * @param status of the model server; 0 when it has not answered
   */
  ended(cause: EndCause, error: string | undefined, status: number): void {
    this.#endDeciding();
    const failure = error ?? (cause === "interrupted" ? "Interrupted" : undefined);
    this.#span.attribute("sluice.end_cause", cause);
    if (status !== 0) this.#span.attribute("http.response.status_code", status);
    if (failure !== undefined) this.#span.fail(failure);
    this.#span.end();
  }

  #endDeciding(): void {
    this.#disaggregation?.end();
    this.#orchestration?.end();
    this.#disaggregation = undefined;
    this.#orchestration = undefined;
    this.#steps = undefined;
  }
}

/**
 * Returns the trace headers. A header that was sent several times becomes one list (RFC 9110 5.3); a list in `traceparent` is
 * unreadable.
 */
function carrierOf({ keys, values }: HeaderList): Record<string, string> {
  const carrier: Record<string, string> = {};
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i]!;
    if (!(CARRIERS as readonly string[]).includes(key)) continue;
    carrier[key] = carrier[key] === undefined ? values[i]! : `${carrier[key]},${values[i]!}`;
  }
  return carrier;
}

/** The span attributes for the headers by which a handler names further stages to the model server. */
function disaggregation(headers: HeaderList | undefined): SpanAttributes {
  const prefiller = headers?.get(PREFILLER);
  const encoders = headers?.get(ENCODERS);
  const at = prefiller?.lastIndexOf(":") ?? -1;
  return {
    "llm_d.epp.pd.disaggregation_used": prefiller !== undefined,
    ...(prefiller === undefined
      ? { "llm_d.epp.pd.reason": "no_prefill_profile_result" }
      : {
          "llm_d.epp.pd.prefill_pod_address": prefiller.slice(0, at),
          "llm_d.epp.pd.prefill_pod_port": prefiller.slice(at + 1),
        }),
    "llm_d.epp.encode.disaggregation_used": encoders !== undefined,
    ...(encoders === undefined
      ? { "llm_d.epp.encode.reason": "no_encode_profile_result" }
      : { "llm_d.epp.encode.endpoints": spanText(encoders) }),
  };
}

/** Steps of one decision up to which filters and scorers are kept; a configuration has no limit of its own. */
const MAX_STEPS = 256;
/** Steps up to which all others are kept: they contain filters and scorers and end after them. */
const MAX_PLACES = 2 * MAX_STEPS;

/** Handlers whose choice of profiles has its own span, by type. */
const HANDLER_SPANS: ReadonlyMap<string, string> = new Map([
  ["disagg-profile-handler", "pick_disagg_profile"],
  ["pd-profile-handler", "pick_pd_profile"],
]);

/**
 * Gathers the steps of one decision and makes spans of them at its end (scheduling 9.1). Each profile has one span for all
 * filters, one for the scoring with a span for each scorer below it, and one for the picker.
 */
export class StepSpans implements DecisionTrace {
  readonly #steps: TracedStep[] = [];

  step(step: TracedStep): void {
    const detail = step.kind === "filter" || step.kind === "scorer";
    if (this.#steps.length < (detail ? MAX_STEPS : MAX_PLACES)) this.#steps.push(step);
  }

  /** Whether a handler of disaggregated serving chose the profiles. */
  get disaggregated(): boolean {
    return this.#steps.some(({ kind, plugin }) => kind === "handler" && HANDLER_SPANS.has(plugin?.type ?? ""));
  }

  /** Makes the spans. @param parent of the profiles @param common attributes of every span */
  show(parent: Span, common: SpanAttributes): void {
    const steps = this.#steps;
    for (const { kind, plugin, started, ended, decision = "" } of steps) {
      const name = kind === "handler" ? HANDLER_SPANS.get(plugin?.type ?? "") : undefined;
      if (name !== undefined)
        parent.past(name, started, ended, { ...common, "llm_d.epp.profile_handler.decision": decisionOf(decision) });
    }
    for (const step of steps) if (step.kind === "profile") this.#showProfile(step, parent, common);
  }

  #showProfile({ profile, started, ended, left }: TracedStep, parent: Span, common: SpanAttributes): void {
    const attributes = { ...common, "llm_d.epp.scheduling.profile.name": profile };
    const failure = left === 0 ? "no endpoint left" : undefined;
    const span = parent.past("run_scheduler_profile", started, ended, attributes, failure);
    const steps = this.#steps.filter((step) => step.profile === profile);
    showFilters(
      steps.filter(({ kind }) => kind === "filter"),
      span,
      common,
    );
    const scorers = steps.filter(({ kind }) => kind === "scorer");
    for (const step of steps) {
      if (step.kind === "scoring") showScoring(step, scorers, span, common);
      if (step.kind === "picker") showPicker(step, span, common);
    }
  }
}

/** Makes one span for all filters of a profile, as the reference does; none for a profile without filters. */
function showFilters(filters: readonly TracedStep[], parent: Span, common: SpanAttributes): void {
  const first = filters[0];
  const last = filters.at(-1);
  if (first === undefined || last === undefined) return;
  parent.past("filter_endpoints", first.started, last.ended, {
    ...common,
    "llm_d.epp.filter.candidate_endpoints": first.candidates,
    "llm_d.epp.filter.filtered_endpoints": last.left,
  });
}

function showScoring(step: TracedStep, scorers: readonly TracedStep[], parent: Span, common: SpanAttributes): void {
  const span = parent.past("llm_d.epp.scoring", step.started, step.ended, {
    ...common,
    "llm_d.epp.scorer.count": scorers.length,
    "llm_d.epp.scoring.candidate_endpoints": step.candidates,
  });
  for (const { plugin, started, ended, candidates, weight = 1, max = 0, mean = 0, scored = 0 } of scorers) {
    const type = plugin?.type ?? "";
    span.past(`llm_d.epp.scorer.${type}`, started, ended, {
      ...common,
      "llm_d.epp.scorer.type": type,
      "llm_d.epp.scorer.name": plugin?.name ?? "",
      "llm_d.epp.scorer.weight": weight,
      "llm_d.epp.scorer.candidate_endpoints": candidates,
      "llm_d.epp.scorer.score.max": max,
      "llm_d.epp.scorer.score.avg": mean,
      "llm_d.epp.scorer.endpoints_scored": scored,
    });
  }
}

function showPicker({ started, ended, candidates, top = [] }: TracedStep, parent: Span, common: SpanAttributes): void {
  parent.past("pick_endpoints", started, ended, {
    ...common,
    "llm_d.epp.picker.candidate_endpoints": candidates,
    "llm_d.epp.picker.top_endpoints": top.map(({ id }) => spanText(id)),
    "llm_d.epp.picker.top_scores": top.map(({ score }) => score),
  });
}

/** Returns the reference's name of a decision: `run_decode`, `complete`. */
function decisionOf(decision: string): string {
  if (decision.startsWith("complete")) return decision;
  return decision
    .split(",")
    .map((profile) => `run_${profile}`)
    .join();
}
