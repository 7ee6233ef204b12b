import type { Span, SpanAttributes } from "../../base/telemetry/tracing.ts";
import type { DecisionTrace, TracedStage } from "../scheduling/hooks.ts";
import { shortened } from "../scheduling/record.ts";

/** Most steps of one decision that are shown; a configuration has no limit of its own. */
const MAX_STAGES = 256;
/** Of these, those that are the place of others come last: they have as much room again. */
const MAX_PLACES = 2 * MAX_STAGES;

/** Handlers whose choice of profiles has a span of its own, by type. */
const HANDLER_SPANS: ReadonlyMap<string, string> = new Map([
  ["disagg-profile-handler", "pick_disagg_profile"],
  ["pd-profile-handler", "pick_pd_profile"],
]);

/** A name or an id as spans show it: some come from clients, and spans wait until they are sent. */
export function spanText(text: string): string {
  const kept = shortened(text);
  return kept === text ? text : kept.toWellFormed();
}

/**
 * Gathers the steps of one decision and shows them as spans once it is over (scheduling 9.1): profiles, in each the
 * filters together, the scoring with every scorer below it, and the picker.
 */
export class StageSpans implements DecisionTrace {
  readonly #stages: TracedStage[] = [];

  stage(stage: TracedStage): void {
    const detail = stage.kind === "filter" || stage.kind === "scorer";
    if (this.#stages.length < (detail ? MAX_STAGES : MAX_PLACES)) this.#stages.push(stage);
  }

  /** Whether a handler of disaggregated serving chose the profiles. */
  get disaggregated(): boolean {
    return this.#stages.some(({ kind, plugin }) => kind === "handler" && HANDLER_SPANS.has(plugin?.type ?? ""));
  }

  /**
   * Makes the spans.
   * @param parent of the profiles
   * @param common what every span carries
   */
  show(parent: Span, common: SpanAttributes): void {
    const stages = this.#stages;
    for (const { kind, plugin, started, ended, decision = "" } of stages) {
      const name = kind === "handler" ? HANDLER_SPANS.get(plugin?.type ?? "") : undefined;
      if (name !== undefined)
        parent.past(name, started, ended, { ...common, "llm_d.epp.profile_handler.decision": decisionOf(decision) });
    }
    for (const stage of stages) if (stage.kind === "profile") this.#showProfile(stage, parent, common);
  }

  #showProfile({ profile, started, ended, left }: TracedStage, parent: Span, common: SpanAttributes): void {
    const attributes = { ...common, "llm_d.epp.scheduling.profile.name": profile };
    const span = parent.past("run_scheduler_profile", started, ended, attributes);
    if (left === 0) span.fail("no endpoint left");
    const steps = this.#stages.filter((stage) => stage.profile === profile);
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

/** One span for all filters of a profile, as the reference has it; none where there are none. */
function showFilters(filters: readonly TracedStage[], parent: Span, common: SpanAttributes): void {
  const first = filters[0];
  const last = filters.at(-1);
  if (first === undefined || last === undefined) return;
  parent.past("filter_endpoints", first.started, last.ended, {
    ...common,
    "llm_d.epp.filter.candidate_endpoints": first.candidates,
    "llm_d.epp.filter.filtered_endpoints": last.left,
  });
}

function showScoring(step: TracedStage, scorers: readonly TracedStage[], parent: Span, common: SpanAttributes): void {
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

function showPicker({ started, ended, candidates, top = [] }: TracedStage, parent: Span, common: SpanAttributes): void {
  parent.past("pick_endpoints", started, ended, {
    ...common,
    "llm_d.epp.picker.candidate_endpoints": candidates,
    "llm_d.epp.picker.top_endpoints": top.map(({ id }) => spanText(id)),
    "llm_d.epp.picker.top_scores": top.map(({ score }) => score),
  });
}

/** In the reference's words: `run_decode`, `complete`. */
function decisionOf(decision: string): string {
  if (decision.startsWith("complete")) return decision;
  return decision
    .split(",")
    .map((profile) => `run_${profile}`)
    .join();
}
