import type { AdminViews, BacklogPicture } from "../admin/views.ts";
import type { DecisionRecord } from "../inference/scheduling-result.ts";
import { explain } from "../scheduling/explain.ts";
import { render } from "../telemetry/exposition.ts";
import type { InferenceCore } from "./inference-core.ts";

/** Endpoints on the page and in one answer of `/debug/endpoints`. */
const MAX_SHOWN = 1000;
/** Decisions in one picture of the page. */
const PICTURED = 40;

/**
 * Joins what the admin pages show from the rooms that own it.
 * @param name of the pool or the process, for the page's title
 * @param backlog what waits in front of the endpoints, where somebody knows
 */
export function viewsOf(
  core: InferenceCore,
  name: string,
  ready: () => boolean,
  backlog: () => BacklogPicture | undefined = () => undefined,
): AdminViews {
  const { records, endpointsView, registry } = core;
  return {
    metrics: (format) => render(registry, format),
    ready,
    endpoints: () => endpointsView.pool(MAX_SHOWN),
    decisions: (count) => records.latest(count).map(brief),
    decision(id) {
      const record = (/^\d+$/.test(id) ? records.bySequence(Number(id)) : undefined) ?? records.byRequestId(id);
      return record === undefined ? undefined : explain(record);
    },
    picture(since) {
      const decisions = records.latest(PICTURED, since ?? 0);
      const state = {
        name,
        endpoints: endpointsView.pool(MAX_SHOWN).endpoints,
        decisions: decisions.map(pictured),
        backlog: backlog(),
      };
      return { data: JSON.stringify(state), mark: decisions[0]?.sequence ?? since ?? 0 };
    },
  };
}

/** A decision in a list. */
function brief(record: DecisionRecord): object {
  return {
    sequence: record.sequence,
    requestId: record.requestId,
    at: new Date(record.at).toISOString(),
    model: record.model,
    endpoint: record.top[0]!.id,
    why: explain(record).sentence,
  };
}

/** A decision on the page: what its line and its table show. */
function pictured(record: DecisionRecord): object {
  const { sequence, at, scorers, top } = record;
  return { sequence, at, scorers, top, sentence: explain(record).sentence };
}
