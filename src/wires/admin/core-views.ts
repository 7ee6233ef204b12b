import type { DecisionRecord } from "../../base/inference/decision-record.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { USUAL_BYTES_PER_TOKEN } from "../../base/inference/request.ts";
import { render } from "../../base/telemetry/exposition.ts";
import type { InferenceCore } from "../../picker/core/inference-core.ts";
import type { PluginState } from "../../picker/core/plugin-state.ts";
import { explain } from "../../picker/decisions/explain.ts";
import { recordJson } from "../../picker/decisions/explain-record.ts";
import type { AdminViews, BacklogPicture, LimitsViews } from "./views.ts";

/** The most endpoints on the page and in one answer of `/debug/endpoints`. */
const MAX_SHOWN = 1000;
/**
 * Limit of one answer with full records, in characters. `sluice explain` takes 16 MiB, and a character has three bytes at most.
 */
const MAX_FULL_ANSWER = 5 << 20;
/** The most decisions in one picture of the page. */
const PICTURED = 40;

/** The shortest start of a request id that may name it, in characters: as many as people read off a log line. */
const SHORTEST_START = 8;
/** The most request ids in a list of ids with the same start. */
const MAX_NAMED = 10;

/**
 * Joins the data that the admin pages show from the rooms that own the data.
 * @param name of the pool or the process, for the page's title
 * @param unready why the process is not ready; undefined when it is
 * @param backlog the queue in front of the endpoints; absent when no dispatcher runs in this process
 * @param limits those by key and model; absent where there can be none
 */
export function viewsOf(
  core: InferenceCore,
  name: string,
  unready: () => string | undefined,
  backlog: () => BacklogPicture | undefined = () => undefined,
  limits?: LimitsViews,
): AdminViews & { find(id: string): DecisionRecord | undefined } {
  const { clock, records, endpointsView, registry } = core;
  const requestIds = (start: string): readonly string[] =>
    start.length < SHORTEST_START ? [] : records.idsBeginning(start, MAX_NAMED);
  const beginning = (start: string): DecisionRecord | undefined => {
    const [only, ...others] = requestIds(start);
    return only === undefined || others.length > 0 ? undefined : records.byRequestId(only);
  };
  const find = (id: string): DecisionRecord | undefined =>
    (/^\d+$/.test(id) ? records.bySequence(Number(id)) : undefined) ?? records.byRequestId(id) ?? beginning(id);
  return {
    find,
    metrics: (format) => render(registry, format),
    ready: () => unready() === undefined,
    unready,
    endpoints: () => endpointsView.pool(MAX_SHOWN),
    decisions: (count) => records.latest(count).map(brief),
    decision(id) {
      const record = find(id);
      return record === undefined ? undefined : explain(record);
    },
    requestIds,
    keptDecisions() {
      const { size, capacity, oldest } = records;
      return {
        count: size,
        most: capacity,
        oldest: oldest === undefined ? undefined : new Date(oldest.at).toISOString(),
      };
    },
    fullDecision(id) {
      const record = find(id);
      if (record === undefined) return undefined;
      return record.full === undefined ? null : recordJson(record);
    },
    fullDecisions(since) {
      const kept: string[] = [];
      let size = 0;
      for (const record of records.latest(Number.POSITIVE_INFINITY, since)) {
        if (record.full === undefined) continue;
        const json = recordJson(record);
        size += json.length + 1;
        if (kept.length > 0 && size > MAX_FULL_ANSWER) break;
        kept.push(json);
      }
      return kept.reverse();
    },
    pluginStates: () => ({
      timestamp: new Date(clock.wall()).toISOString(),
      plugins: pluginStates(core.pluginStates()),
    }),
    models: () => ({
      models: core.bytesPerToken?.list() ?? [],
      otherBytesPerToken: USUAL_BYTES_PER_TOKEN,
    }),
    queues: () => core.queues(),
    limits: () => limits?.view(),
    picture(since) {
      const decisions = records.latest(PICTURED, since ?? 0);
      const state = {
        name,
        endpoints: endpointsView.pool(MAX_SHOWN).endpoints,
        decisions: decisions.map(pictured),
        backlog: backlog(),
        limits: limits?.picture(),
      };
      return { data: JSON.stringify(state), mark: decisions[0]?.sequence ?? since ?? 0 };
    },
  };
}

/** A decision in a list. */
function brief(record: DecisionRecord): object {
  const { sentence, refusal } = explain(record);
  return {
    sequence: record.sequence,
    requestId: record.requestId,
    at: new Date(record.at).toISOString(),
    model: record.model,
    endpoint: record.top[0]?.id ?? null,
    refused: refusal?.reason ?? null,
    why: sentence,
  };
}

/** A decision on the page: what its line and its table show. */
function pictured(record: DecisionRecord): object {
  const { sequence, requestId, at, scorers } = record;
  const { candidates, configHash, filters, notes, others, profile, reason, refusal } = explain(record);
  return {
    ...{ sequence, requestId, at, reason, refusal, profile, others, notes, configHash, scorers },
    filters: filters.map(({ text }) => text),
    candidates: candidates.map(({ scores, ...rest }) => ({ ...rest, scores: scores.map(({ score }) => score) })),
  };
}

/** One plugin in `/debug/plugins/state` (scheduling 9.2): its state, or the reason why it has none. */
interface ShownState {
  readonly name: string;
  readonly type: string;
  readonly state?: unknown;
  readonly message?: string;
}

/** The longest state shown, in characters of JSON. */
const MAX_STATE = 1024 * 1024;

/** The states that plugins report, by instance name. When two plugins share a name, the one with a state is shown. */
export function pluginStates(plugins: Iterable<PluginState>): Readonly<Record<string, ShownState>> {
  const shown = new Map<string, ShownState>();
  for (const { name, type, state } of plugins)
    if (shown.get(name)?.state === undefined) shown.set(name, { name, type, ...stateOf(state) });
  return Object.fromEntries(shown);
}

function stateOf(state: PluginState["state"]): Pick<ShownState, "state" | "message"> {
  if (state === undefined) return { message: "the plugin reports no state" };
  try {
    const json = JSON.stringify(state());
    if (json === undefined) return { message: "the plugin has no state at present" };
    if (json.length > MAX_STATE)
      return { message: `the state is too long to show: ${json.length} characters, at most ${MAX_STATE}` };
    return { state: JSON.parse(json) };
  } catch (error) {
    return { message: `the plugin failed to report its state: ${messageOf(error)}` };
  }
}
