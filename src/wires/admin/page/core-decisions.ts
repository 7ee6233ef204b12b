import type { DecisionRecord } from "../../../base/inference/decision-record.ts";
import type { InferenceCore } from "../../../picker/core/inference-core.ts";
import type { JourneyState, Journeys } from "../../../picker/core/watch/journeys.ts";
import { explain, reasonFor } from "../../../picker/decisions/explain.ts";
import { recordJson } from "../../../picker/decisions/explain-record.ts";
import { span } from "../../../picker/decisions/explain-words.ts";
import { findDecision, requestIdsBeginning, severalBegin } from "../decision-search.ts";
import type {
  DecisionDetail,
  DecisionRow,
  DecisionsFeed,
  Journey,
  JourneyRow,
  JourneyStep,
  RecordJson,
} from "../feed/decisions.ts";
import { shown } from "./process.ts";
import type { DecisionFilter, DecisionsSource } from "./source.ts";

/** The classes of decisions that `reason` may name beside the reason of a refusal. */
const CLASSES: Readonly<Record<string, (record: DecisionRecord, journey: JourneyState | undefined) => boolean>> = {
  routed: ({ refusal }) => refusal === undefined,
  refused: ({ refusal }) => refusal !== undefined,
  waited: ({ queued }) => queued !== undefined && queued.waitedMs > 0,
  retried: (_, journey) => journey?.attempts.some(({ failure }) => failure !== undefined) ?? false,
  failed: ({ served }, journey) =>
    served === "nobody" ||
    (journey?.outcome !== undefined && journey.outcome !== "answered" && journey.outcome !== "unfollowed"),
};

/** The decisions of a gateway or picker: their records, and the ways of their requests. */
export class CoreDecisions implements DecisionsSource {
  readonly #core: InferenceCore;

  constructor(core: InferenceCore) {
    this.#core = core;
  }

  newest(): number {
    return this.#core.records.nextSequence - 1;
  }

  oldest(): number {
    const { records } = this.#core;
    return records.nextSequence - records.size;
  }

  list(filter: DecisionFilter, before: number | undefined, limit: number): DecisionsFeed {
    const { records } = this.#core;
    const rows: DecisionRow[] = [];
    let next: number | null = null;
    const first = Math.min(before ?? Number.POSITIVE_INFINITY, records.nextSequence) - 1;
    for (let sequence = first; ; sequence--) {
      const record = records.bySequence(sequence);
      if (record === undefined) break;
      if (!this.#takes(record, filter)) continue;
      if (rows.length === limit) {
        next = rows.at(-1)!.sequence;
        break;
      }
      rows.push(this.#row(record));
    }
    const alike = requestIdsBeginning(records, filter.q ?? "");
    return {
      rows,
      next,
      kept: { count: records.size, most: records.capacity, oldestAt: records.oldest?.at ?? null },
      alike: alike.length > 1 ? alike : [],
    };
  }

  one(id: string): DecisionDetail | string {
    const { records, configured } = this.#core;
    const record = findDecision(records, id);
    if (record !== undefined) {
      const explanation = explain(record);
      return {
        row: this.#row(record),
        explanation,
        record: JSON.parse(recordJson(record)) as RecordJson,
        journey: this.#journey(record),
        configInForce: record.configHash === configured.plan.configHash,
      };
    }
    const alike = requestIdsBeginning(records, id);
    if (alike.length > 1) return severalBegin(id, alike);
    return `no decision ${id}: the process keeps the newest ${records.capacity} decisions, and none for requests that it could not read`;
  }

  after(filter: DecisionFilter, sequence: number, limit: number): { rows: DecisionRow[]; passed: number } {
    const { records } = this.#core;
    const taken: DecisionRecord[] = [];
    let passed = 0;
    for (let at = records.nextSequence - 1; at > sequence; at--) {
      const record = records.bySequence(at);
      if (record === undefined) break;
      if (!this.#takes(record, filter)) continue;
      passed++;
      if (taken.length < limit) taken.push(record);
    }
    return { rows: taken.reverse().map((record) => this.#row(record)), passed };
  }

  outcome(sequence: number): JourneyRow["outcome"] | undefined {
    const { records, watch } = this.#core;
    if (records.bySequence(sequence) === undefined) return undefined;
    return outcomeOf(watch.journeys.of(sequence));
  }

  row(sequence: number): DecisionRow | undefined {
    const record = this.#core.records.bySequence(sequence);
    return record && this.#row(record);
  }

  #takes(record: DecisionRecord, { q, model, endpoint, key, reason }: DecisionFilter): boolean {
    const { sequence, requestId } = record;
    if (q !== undefined && String(sequence) !== q && !requestId.startsWith(q)) return false;
    if (model !== undefined && record.model !== model && record.targetModel !== model) return false;
    const journey = this.#core.watch.journeys.of(sequence);
    if (key !== undefined && journey?.caller !== key) return false;
    if (endpoint !== undefined && !tried(record, journey, endpoint)) return false;
    if (reason === undefined) return true;
    const isClass = CLASSES[reason];
    return isClass === undefined ? record.refusal?.reason === reason : isClass(record, journey);
  }

  #row(record: DecisionRecord): DecisionRow {
    const { sequence, top, served } = record;
    const journey = this.#core.watch.journeys.of(sequence);
    const [first, second] = top;
    return {
      sequence,
      requestId: record.requestId,
      at: record.at,
      model: record.model,
      targetModel: record.targetModel,
      priority: record.priority,
      key: journey?.caller ?? null,
      endpoint: first?.id ?? null,
      served: served === undefined || served === "nobody" ? (served ?? null) : served.id,
      refused: record.refusal?.reason ?? null,
      why: reasonFor(record),
      total: first === undefined ? null : shown(first.total),
      runnerUp: second === undefined ? null : { id: second.id, total: shown(second.total) ?? 0 },
      candidates: record.candidates,
      waitedMs: Math.round(record.queued?.waitedMs ?? 0),
      journey: rowOf(journey),
      full: record.full !== undefined,
    };
  }

  #journey(record: DecisionRecord): Journey {
    const { watch } = this.#core;
    const state = watch.journeys.of(record.sequence);
    return {
      ...rowOf(state),
      requestId: record.requestId,
      receivedAt: state === undefined ? null : Math.round(watch.wallOf(state.receivedAt)),
      steps: state === undefined ? [] : stepsOf(record, state),
      streaming: state?.streaming ?? false,
    };
  }
}

function tried({ top }: DecisionRecord, journey: ReturnType<Journeys["of"]>, endpoint: string): boolean {
  if (journey === undefined) return top[0]?.id === endpoint;
  return journey.endpoint === endpoint || journey.attempts.some((attempt) => attempt.endpoint === endpoint);
}

function outcomeOf(state: JourneyState | undefined): JourneyRow["outcome"] {
  return state === undefined ? "lost" : (state.outcome ?? "running");
}

function rowOf(state: JourneyState | undefined): JourneyRow {
  if (state === undefined)
    return {
      ...{ outcome: outcomeOf(state), status: null, ttftMs: null, durationMs: null },
      ...{ promptTokens: null, cachedTokens: null, outputTokens: null, attempts: 0 },
    };
  const { receivedAt, firstByteAt, endedAt } = state;
  return {
    outcome: outcomeOf(state),
    status: state.status === 0 ? null : state.status,
    ttftMs: milliseconds((state.streaming || state.outcome === undefined ? firstByteAt : endedAt) - receivedAt),
    durationMs: milliseconds(endedAt - receivedAt),
    promptTokens: shown(state.promptTokens),
    cachedTokens: shown(state.cachedTokens),
    outputTokens: shown(state.outputTokens),
    attempts: attemptsOf(state),
  };
}

/** Attempts that ended, and the one under way. */
function attemptsOf({ endpoint, attempts, outcome }: JourneyState): number {
  if (endpoint === "") return 0;
  return outcome === undefined || attempts.length === 0 ? Math.max(1, attempts.length) : attempts.length;
}

function milliseconds(ms: number): number | null {
  return Number.isFinite(ms) ? Math.round(ms * 10) / 10 : null;
}

/** The way of a request in steps, in the order of time. */
export function stepsOf(record: DecisionRecord, state: JourneyState): JourneyStep[] {
  const { receivedAt, decidedAt, endpoint } = state;
  const steps: JourneyStep[] = [];
  const add = (kind: JourneyStep["kind"], at: number, where: string | null, text: string): void => {
    if (Number.isFinite(at))
      steps.push({ kind, ms: Math.max(0, milliseconds(at - receivedAt)!), endpoint: where, text });
  };
  add("received", receivedAt, null, "the headers arrived");
  const { queued, refusal } = record;
  if (queued !== undefined) {
    add("queued", decidedAt - queued.waitedMs, null, `flow ${queued.fairnessId} of band ${queued.band}`);
    add("left-queue", decidedAt, null, `after ${span(queued.waitedMs)}`);
  }
  if (refusal !== undefined) add("refused", decidedAt, null, `${refusal.reason}: ${refusal.detail}`);
  else add("decided", decidedAt, endpoint, `among ${record.candidates} candidates`);
  let began = decidedAt;
  for (const attempt of state.attempts) {
    add("attempt", began, attempt.endpoint, "");
    if (attempt.failure === undefined) add("first-token", attempt.at, attempt.endpoint, "the answer began");
    else add("attempt-failed", attempt.at, attempt.endpoint, attempt.failure);
    began = attempt.at;
  }
  if (state.attempts.length === 0 && endpoint !== "") add("attempt", decidedAt, endpoint, "");
  if (state.outcome !== undefined)
    add("end", state.endedAt, null, state.status === 0 ? state.outcome : `${state.outcome}, status ${state.status}`);
  return steps;
}
