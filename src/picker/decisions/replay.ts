import type { Clock } from "../../base/clock/clock.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import type { DecisionRecord, FullRecord } from "../../base/inference/decision-record.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import { TOKENIZED_PROMPT } from "../../base/plugin/keys.ts";
import type { Producer } from "../../base/plugin/kinds.ts";
import type { ProfileMember, SchedulingPlan } from "../scheduling/profile.ts";
import { Scheduler } from "../scheduling/scheduler.ts";

const NO_TOKENS = new Uint8Array(0);

/** The result of a recorded decision that was made again. */
export interface ReplayOutcome {
  /** The record of the new decision. Its `top` names the pick; its `refusal` gives the reason when there is none. */
  readonly record: DecisionRecord;
  /** Data that the plan reads and the record lacks, as `producer/key`; it counted as zero. */
  readonly missing: readonly string[];
  /**
   * The differences of the two decisions, a sentence each. Empty = same endpoints in the same order, same totals, bit by bit.
   */
  readonly differences: readonly string[];
}

/**
 * Makes a recorded decision again, with the same candidates, data and random state, through a plan of the same or another
 * configuration. Producers and screeners do not run: the record holds their results.
 * @param plan with plugins of its own; the replay overwrites the memory of its pickers
 * @returns undefined when there is nothing to replay: the record is not full, or the request was refused before the decision
 *   computed anything for it
 */
export function replay(record: DecisionRecord, plan: SchedulingPlan): ReplayOutcome | undefined {
  const { full } = record;
  if (full === undefined || full.screened.length === 0) return undefined;
  const missing: string[] = [];
  const producers = plan.producers.map((producer) => recorded(producer, plan, full, missing));
  for (const { picker } of plan.profiles) {
    // Operators choose these names; one may equal a property that every object inherits.
    if (Object.hasOwn(full.memories, picker.name)) picker.plugin.memory = full.memories[picker.name]!;
  }
  const scheduler = new Scheduler({
    plan: { ...plan, screeners: [], producers, prefixProducer: undefined },
    clock: clockAt(full.now, record.at),
    random: new SeededRandom(full.randomState),
    staleness: full.staleness,
  });
  const endpoints = full.screened.map((place) => full.endpoints[place]!);
  scheduler.schedule(requestOf(record, full), endpoints, record.excludedDown, { full: true });
  const again = scheduler.records.newest!;
  return { record: again, missing: [...new Set(missing)], differences: differencesOf(record, again) };
}

/** Returns a producer that writes the values of the record. */
function recorded(
  producer: ProfileMember<Producer>,
  plan: SchedulingPlan,
  full: FullRecord,
  missing: string[],
): ProfileMember<Producer> {
  const plugin: Producer = {
    produce({ candidates, setAttribute }) {
      for (const [key, { of, place }] of producer.scope.writes) {
        const name = of === "endpoint" ? plan.columns[place]! : plan.attributes[place]!;
        const value = of === "endpoint" ? full.columns[name] : full.attributes[name];
        if (value === undefined) missing.push(name);
        else if (value === null) continue;
        else if (key.of === "endpoint") candidates.column(key).set(value as readonly number[]);
        else setAttribute(key, key === TOKENIZED_PROMPT ? { tokens: NO_TOKENS, prompts: [], count: value } : value);
      }
    },
  };
  return { ...producer, plugin };
}

function requestOf(record: DecisionRecord, full: FullRecord): InferenceRequest {
  const { promptBytes, headers, ...facts } = full.request;
  return {
    ...facts,
    id: record.requestId,
    headers: HeaderList.of(headers),
    body: new Uint8Array(0),
    model: record.model,
    targetModel: record.targetModel,
    priority: record.priority,
    modelRange: undefined,
    modelInsertAt: -1,
    answerFormat: "http",
    cacheSalt: "",
    prompts: promptBytes === 0 ? [] : [[{ start: 0, end: promptBytes }]],
  };
}

/** A clock that does not move and whose timers never fire. */
function clockAt(now: number, wall: number): Clock {
  return { now: () => now, wall: () => wall, after: () => ({ cancel() {} }), soon() {} };
}

function differencesOf(before: DecisionRecord, after: DecisionRecord): string[] {
  const differences: string[] = [];
  const note = (what: string, then: unknown, now: unknown): void => {
    if (then !== now) differences.push(`${what} was ${then}, now it is ${now}`);
  };
  const ending = ({ refusal }: DecisionRecord): string =>
    refusal === undefined ? "routed" : `refused, ${refusal.reason}`;
  note("the outcome", ending(before), ending(after));
  note("the pick", before.top[0]?.id, after.top[0]?.id);
  note("the order", before.top.map(({ id }) => id).join(", "), after.top.map(({ id }) => id).join(", "));
  const others = ({ others: all }: DecisionRecord): string =>
    all.map(({ profile, id }) => `${profile}: ${id}`).join(", ");
  note("what other profiles chose", others(before) || "nothing", others(after) || "nothing");
  const totals = new Map(after.full!.endpoints.map(({ id, total }) => [id, total]));
  for (const { id, total } of before.full!.endpoints)
    if (totals.has(id) && !Object.is(total, totals.get(id))) note(`the total of ${id}`, total, totals.get(id));
  return differences;
}
