import { type Random, SeededRandom } from "../../../src/base/clock/random.ts";
import {
  type Endpoint,
  type EndpointMetrics,
  hostPort,
  UNKNOWN_METRICS,
} from "../../../src/base/inference/endpoint.ts";
import { HeaderList } from "../../../src/base/inference/headers.ts";
import type { InferenceRequest } from "../../../src/base/inference/request.ts";
import type { AttributeKey, ColumnKey, DataKey } from "../../../src/base/plugin/keys.ts";
import type {
  DecisionContext,
  Picker,
  PluginContext,
  PluginDefinition,
  PluginKind,
  PluginKinds,
  ProduceContext,
} from "../../../src/base/plugin/kinds.ts";
import { CandidateColumns } from "../../../src/picker/scheduling/candidates.ts";
import { type DataScope, NO_WRITER, type WrittenAt } from "../../../src/picker/scheduling/profile.ts";
import { pluginContextOf } from "../plugin-context.ts";

/** What a test says about an endpoint; the rest is filled in. Metrics count as scraped at monotonic 0. */
export interface FakeEndpoint extends Partial<Omit<Endpoint, "metrics" | "inFlight">> {
  readonly metrics?: Partial<EndpointMetrics>;
  readonly inFlight?: { requests: number; tokens: number };
}

/** An idle endpoint of slot `slot`, freshly scraped at monotonic 0 unless told otherwise. */
export function endpointOf(slot: number, fake: FakeEndpoint = {}): Endpoint {
  const address = `10.0.${slot >> 8}.${slot & 255}`;
  const { metrics, inFlight = { requests: 0, tokens: 0 }, ...rest } = fake;
  return {
    id: `default/pod-${slot}`,
    slot,
    namespace: "default",
    name: `pod-${slot}`,
    address,
    port: 8000,
    hostPort: hostPort(address, 8000),
    rank: 0,
    labels: {},
    metrics: { ...UNKNOWN_METRICS, waiting: 0, running: 0, kvUsage: 0, scrapedAt: 0, ...metrics },
    inFlight,
    state: "up",
    scrapeInterval: 50,
    ...rest,
  };
}

/** An endpoint that never answered a scrape. */
export function unscraped(slot: number, fake: FakeEndpoint = {}): Endpoint {
  return { ...endpointOf(slot, fake), metrics: UNKNOWN_METRICS };
}

/** A request with one prompt. */
export function requestOf(prompt: string, fake: Partial<InferenceRequest> = {}): InferenceRequest {
  const body = new TextEncoder().encode(prompt);
  return {
    id: "request-1",
    headers: new HeaderList(),
    body,
    model: "model",
    targetModel: "model",
    modelRange: undefined,
    modelInsertAt: -1,
    answerFormat: "http",
    objective: "",
    priority: 0,
    shedAt: (fake.priority ?? 0) < 0 ? 1 : Number.POSITIVE_INFINITY,
    fairnessId: "default-flow",
    streaming: false,
    cacheSalt: "",
    prompts: prompt === "" ? [] : [[{ start: 0, end: body.length }]],
    maxTokens: Number.NaN,
    ...fake,
  };
}

/** An instance of a definition, its parameters parsed as the configuration would. */
export function instanceOf<K extends PluginKind>(
  definition: PluginDefinition<K>,
  parameters: object = {},
  fake: Partial<PluginContext> = {},
): PluginKinds[K] {
  return definition.create(definition.parameters.parse(parameters), pluginContextOf(definition.type, fake));
}

/** The candidates of a decision at monotonic `now`, with producers' columns as given; attributes given are in scope. */
export function columnsOf(
  endpoints: readonly Endpoint[],
  given: readonly (readonly [DataKey, readonly number[] | unknown])[] = [],
  now = 0,
): CandidateColumns {
  const columnKeys = given.flatMap(([key]) => (key.of === "endpoint" ? [key] : []));
  const attributeKeys = given.flatMap(([key]) => (key.of === "request" ? [key] : []));
  const columns = new CandidateColumns(columnKeys.length, attributeKeys.length);
  const places = new Map<ColumnKey, number>(columnKeys.map((key, place) => [key, place]));
  const attributes = new Map<AttributeKey, number>(attributeKeys.map((key, place) => [key, place]));
  const writes = new Map<DataKey, WrittenAt>();
  for (const [key, place] of [...places, ...attributes]) writes.set(key, { of: key.of, place });
  columns.scope = new GivenScope(places, attributes, writes);
  columns.fill(endpoints, now);
  for (const [key, value] of given)
    if (key.of === "endpoint") columns.column(key).set(value as readonly number[]);
    else columns.setAttribute(key, value);
  return columns;
}

/** What a test gives is written, everything else is declared and written by nobody. */
class GivenScope implements DataScope {
  readonly columns: ReadonlyMap<ColumnKey, number>;
  readonly attributes: ReadonlyMap<AttributeKey, number>;
  readonly writes: ReadonlyMap<DataKey, WrittenAt>;

  constructor(
    columns: ReadonlyMap<ColumnKey, number>,
    attributes: ReadonlyMap<AttributeKey, number>,
    writes: ReadonlyMap<DataKey, WrittenAt>,
  ) {
    this.columns = orNobody(columns);
    this.attributes = orNobody(attributes);
    this.writes = writes;
  }
}

function orNobody<K>(places: ReadonlyMap<K, number>): ReadonlyMap<K, number> {
  return new (class extends Map<K, number> {
    override get(key: K): number {
      return super.get(key) ?? NO_WRITER;
    }
  })(places);
}

/** The part of every context that is the same: the request, the candidates and what is attached to the request. */
export function decisionContextOf(candidates: CandidateColumns, request = requestOf("prompt")): DecisionContext {
  return { request, candidates, attribute: (key) => candidates.attribute(key) };
}

/** What a producer is given. @param prepared what its `prepare` would have resolved to */
export function produceContextOf(
  candidates: CandidateColumns,
  request = requestOf("prompt"),
  prepared?: unknown,
): ProduceContext {
  const setAttribute: ProduceContext["setAttribute"] = (key, value) => candidates.setAttribute(key, value);
  return { ...decisionContextOf(candidates, request), prepared, setAttribute };
}

/** What a scorer writes for these candidates, rounded to nine digits. */
export function scoresOf(
  definition: PluginDefinition<"scorer">,
  candidates: CandidateColumns,
  parameters: object = {},
  request = requestOf("prompt"),
): number[] {
  const out = new Float64Array(candidates.room);
  instanceOf(definition, parameters).score({ ...decisionContextOf(candidates, request), out });
  return [...out.slice(0, candidates.count)].map((score) => Number(score.toFixed(9)));
}

/** Runs a picker over totals; returns the order and how many share the first place. */
export function pickFrom(picker: Picker, totals: readonly number[], random: Random): { order: number[]; tied: number } {
  return picksFrom(picker, totals, random)();
}

/** As `pickFrom`, for many picks: each call is one, from the same candidates with the same totals. */
export function picksFrom(
  picker: Picker,
  totals: readonly number[],
  random: Random,
): () => { order: number[]; tied: number } {
  const candidates = columnsOf(totals.map((_, slot) => endpointOf(slot)));
  const order = new Uint32Array(candidates.room);
  const sums = new Float64Array(candidates.room);
  const context = { ...decisionContextOf(candidates, requestOf("")), totals: sums, random, order };
  return () => {
    for (let i = 0; i < order.length; i++) order[i] = i;
    sums.set(totals);
    const tied = picker.pick(context);
    return { order: [...order.subarray(0, totals.length)], tied };
  };
}

/** Places of the candidates that a filter keeps. */
export function keptBy(
  definition: PluginDefinition<"filter">,
  candidates: CandidateColumns,
  parameters: object = {},
  request = requestOf("prompt"),
  random: Random = new SeededRandom(1),
): number[] {
  const keep = new Uint8Array(candidates.room).fill(1, 0, candidates.count);
  instanceOf(definition, parameters).filter({ ...decisionContextOf(candidates, request), keep, random });
  return [...keep.slice(0, candidates.count).keys()].filter((i) => keep[i] !== 0);
}
