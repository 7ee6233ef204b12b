import { HeaderList } from "../../base/inference/headers.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { Span, SpanAttributes, Tracing } from "../../base/telemetry/tracing.ts";
import type { DecisionTrace } from "../scheduling/hooks.ts";
import { StageSpans, spanText } from "./stage-spans.ts";
import type { EndCause, Routed } from "./wire.ts";

/** What carries a trace from service to service (W3C trace context and baggage). */
const CARRIERS = ["traceparent", "tracestate", "baggage"] as const;

/** Headers by which a model server is told of further stages (scheduling 3.7.1). */
const PREFILLER = "x-prefiller-host-port";
const ENCODERS = "x-encoder-hosts-ports";

/**
 * One exchange as a trace shows it: `gateway.request` from its headers to its end, in it `gateway.request_orchestration`
 * with what was decided (scheduling 9.1). What nobody samples costs the first of them alone. Holds no prompt text, and
 * names and ids at bounded length.
 */
export class ExchangeTrace {
  readonly #span: Span;
  readonly #id: string;
  /** The client named a state of its trace. */
  readonly #carried: boolean;
  #orchestration: Span | undefined;
  #stages: StageSpans | undefined;
  #disaggregation: Span | undefined;

  /**
   * @param headers of the request: they say which trace this belongs to
   * @param id of the request
   */
  constructor(tracing: Tracing, headers: HeaderList, id: string) {
    const carrier = carrierOf(headers);
    this.#carried = carrier["tracestate"] !== undefined;
    this.#id = spanText(id);
    this.#span = tracing.start("gateway.request", carrier, { "gen_ai.request.id": this.#id }, "server");
  }

  /** The request is complete, and an endpoint is looked for. @returns where the steps go; undefined = nobody wants them */
  deciding(): DecisionTrace | undefined {
    if (!this.#span.sampled) return undefined;
    const common = { "gen_ai.request.id": this.#id };
    this.#orchestration = this.#span.child("gateway.request_orchestration", common, "server");
    this.#stages = new StageSpans();
    return this.#stages;
  }

  /** It was decided about: routed or refused. */
  decided({ targetModel, priority }: InferenceRequest): void {
    const span = this.#orchestration;
    if (span === undefined) return;
    const model = spanText(targetModel);
    const common = { "gen_ai.request.id": this.#id, "gen_ai.request.model": model };
    for (const each of [this.#span, span]) each.attribute("gen_ai.request.model", model);
    span.attribute("target_model", model);
    span.attribute("request_prio", priority);
    this.#stages?.show(span, common);
    if (this.#stages?.disaggregated) this.#disaggregation = span.child("prepare_disaggregation", common);
  }

  /** The request gets this instead of an endpoint. */
  refused({ code }: Rejection): void {
    this.#orchestration?.fail(code);
    this.#endDeciding();
  }

  /** @returns the decision with what makes the model server a part of the trace */
  forwarded(routed: Routed): Routed {
    const told = this.#disaggregation;
    if (told !== undefined)
      for (const [name, value] of Object.entries(disaggregation(routed.headers))) told.attribute(name, value);
    this.#endDeciding();
    const trace = new HeaderList();
    this.#span.inject((name, value) => trace.add(name, value));
    // A state belongs to its traceparent: where that could not be read, to none that goes on.
    if (!this.#carried || trace.get("tracestate") !== undefined) return { ...routed, trace };
    return { ...routed, trace, removed: [...(routed.removed ?? []), "tracestate"] };
  }

  /**
   * The exchange is over.
   * @param error what it counts as in `request_error_total`; undefined = it does not
   * @param status of the model server; 0 = it has not answered
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
    this.#stages = undefined;
  }
}

/** A header that was sent several times is one list (RFC 9110 5.3); of `traceparent` that leaves none that can be read. */
function carrierOf({ keys, values }: HeaderList): Record<string, string> {
  const carrier: Record<string, string> = {};
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i]!;
    if (!(CARRIERS as readonly string[]).includes(key)) continue;
    carrier[key] = carrier[key] === undefined ? values[i]! : `${carrier[key]},${values[i]!}`;
  }
  return carrier;
}

/** What the handler has told the model server about further stages. */
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
