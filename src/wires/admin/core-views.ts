import type { DecisionRecord } from "../../base/inference/decision-record.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { USUAL_BYTES_PER_TOKEN } from "../../base/inference/request.ts";
import { render } from "../../base/telemetry/exposition.ts";
import type { InferenceCore } from "../../picker/core/inference-core.ts";
import type { PluginState } from "../../picker/core/plugin-state.ts";
import { explain } from "../../picker/decisions/explain.ts";
import { recordJson } from "../../picker/decisions/explain-record.ts";
import type { OpenPeers } from "../../pool/peers/open-peers.ts";
import { peersView } from "../../pool/peers/peers-view.ts";
import { findDecision, requestIdsBeginning } from "./decision-search.ts";
import type { AdminViews } from "./views.ts";

/** The most endpoints in one answer of `/debug/endpoints`. */
const MAX_SHOWN = 1000;
/**
 * Limit of one answer with full records, in characters. `sluice explain` takes 16 MiB, and a character has three bytes at most.
 */
const MAX_FULL_ANSWER = 5 << 20;

/** What a process has beside its core. */
interface Beside {
  /** Why the process is not ready; undefined when it is. */
  unready(): string | undefined;
  /** All rules by key and model with their fullest counters; absent where there can be none. */
  readonly limits?: { view(): object } | undefined;
  /** The way to the other replicas; absent where none share what they know. */
  readonly peers?: OpenPeers | undefined;
}

/** Joins the data that the admin pages show from the rooms that own the data. */
export function viewsOf(core: InferenceCore, { unready, limits, peers }: Beside): AdminViews {
  const { clock, records, endpointsView, registry } = core;
  return {
    metrics: (format) => render(registry, format),
    ready: () => unready() === undefined,
    unready,
    endpoints: () => endpointsView.pool(MAX_SHOWN),
    decisions: (count) => records.latest(count).map(brief),
    decision(id) {
      const record = findDecision(records, id);
      return record === undefined ? undefined : explain(record);
    },
    requestIds: (start) => requestIdsBeginning(records, start),
    keptDecisions() {
      const { size, capacity, oldest } = records;
      return {
        count: size,
        most: capacity,
        oldest: oldest === undefined ? undefined : new Date(oldest.at).toISOString(),
      };
    },
    fullDecision(id) {
      const record = findDecision(records, id);
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
    hasLimits: limits !== undefined,
    peers: () => peers && core.peers && peersView(core.peers, peers.transport.view, clock),
    sharesWithPeers: peers !== undefined && core.peers !== undefined,
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
