import type { FullRecord, RecordedEndpoint } from "../../base/inference/decision-record.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { HeaderList } from "../../base/inference/headers.ts";
import { type InferenceRequest, promptBytes, USUAL_BYTES_PER_TOKEN } from "../../base/inference/request.ts";
import { TOKENIZED_PROMPT, type TokenizedPrompt } from "../../base/plugin/keys.ts";
import type { CandidateColumns } from "./candidates.ts";
import { DroppedBy } from "./dropped.ts";
import type { SchedulingPlan } from "./profile.ts";
import type { ProfileRun } from "./profile-run.ts";
import { shortened } from "./record.ts";

/** The header of conditional decoding: the scheduler reads it in every configuration. */
const ALWAYS_KEPT = ["prefer"];
/** Of a tokenized prompt, a record keeps only the number of tokens: no filter and no scorer reads more of it. */
const TOKENS = `/${TOKENIZED_PROMPT.name}`;

/** Copies the inputs of a decision while it is made: most of them change right afterwards. */
export class FullCapture {
  readonly dropped = new DroppedBy();
  readonly #plan: SchedulingPlan;
  readonly #request: InferenceRequest;
  readonly #endpoints: readonly Endpoint[];
  readonly #loads: readonly { readonly requests: number; readonly tokens: number }[];
  readonly #before: Pick<FullRecord, "now" | "memories" | "staleness">;
  #randomState: number;
  #screened: readonly number[] = [];
  #columns: Record<string, readonly number[]> = {};
  #attributes: Record<string, number | boolean | null> = {};

  /**
   * Create it before any part of the decision runs.
   * @param endpoints all candidates
   * @param randomState state of the generator that the decision draws from
   */
  constructor(
    plan: SchedulingPlan,
    request: InferenceRequest,
    endpoints: readonly Endpoint[],
    { now, randomState, staleness }: { now: number; randomState: number; staleness: number },
  ) {
    this.#plan = plan;
    this.#request = request;
    this.#endpoints = endpoints;
    this.#loads = endpoints.map(({ inFlight: { requests, tokens } }) => ({ requests, tokens }));
    const memories = plan.profiles.flatMap(({ picker: { name, plugin } }) =>
      plugin.memory === undefined ? [] : [[name, plugin.memory] as const],
    );
    this.#randomState = randomState;
    this.#before = { now, memories: Object.fromEntries(memories), staleness };
  }

  /**
   * Call this after the producers and before any admitter or filter.
   * @param randomState the start of a replay: a replay runs no producers, and producers may draw random numbers too
   */
  produced(columns: CandidateColumns, randomState: number): void {
    this.#randomState = randomState;
    const { count } = columns;
    const places = new Map(this.#endpoints.map((endpoint, place) => [endpoint, place]));
    this.#screened = columns.endpoints.slice(0, count).map((endpoint) => places.get(endpoint)!);
    this.#columns = Object.fromEntries(
      this.#plan.columns.map((name, at) => [name, Array.from(columns.at(at)!.subarray(0, count))]),
    );
    this.#plan.attributes.forEach((name, at) => {
      const attribute = columns.attributeAt(at);
      const value = name.endsWith(TOKENS) ? (attribute as TokenizedPrompt | undefined)?.count : attribute;
      // Null: no producer wrote it, such as the tokens of a late tokenization. A replay does not write it either.
      if (attribute === undefined) this.#attributes[name] = null;
      else if (typeof value === "number" || typeof value === "boolean") this.#attributes[name] = value;
    });
  }

  /** @param run of the primary profile, while its arrays still hold it; undefined when the request was refused before */
  finish(run: ProfileRun | undefined): FullRecord {
    const { objective, fairnessId, streaming, maxTokens, shedAt, headers } = this.#request;
    const { escapeBytes = 0, bytesPerToken = USUAL_BYTES_PER_TOKEN } = this.#request;
    return {
      ...this.#before,
      randomState: this.#randomState,
      request: {
        ...{ objective: shortened(objective), fairnessId: shortened(fairnessId), streaming, maxTokens, shedAt },
        promptBytes: promptBytes(this.#request),
        escapeBytes,
        bytesPerToken,
        headers: [...new Set([...ALWAYS_KEPT, ...this.#plan.headers])].flatMap((name) => kept(headers, name)),
      },
      endpoints: this.#recorded(run),
      screened: this.#screened,
      columns: this.#columns,
      attributes: this.#attributes,
    };
  }

  #recorded(run: ProfileRun | undefined): RecordedEndpoint[] {
    const places = new Map<Endpoint, number>();
    if (run !== undefined) for (let i = 0; i < run.columns.count; i++) places.set(run.columns.endpoints[i]!, i);
    return this.#endpoints.map((endpoint, at) => {
      const { id, slot, namespace, name, address, port, hostPort, rank, labels, state, scrapeInterval } = endpoint;
      const place = places.get(endpoint);
      return {
        id,
        slot,
        namespace,
        name,
        address,
        port,
        hostPort,
        rank,
        labels,
        state,
        scrapeInterval,
        inFlight: this.#loads[at]!,
        // Each scrape replaces the whole object, so this one does not change.
        metrics: endpoint.metrics,
        ...furtherOf(endpoint),
        droppedBy: this.dropped.of(run?.profile.name ?? "", endpoint),
        total: place === undefined ? Number.NaN : run!.totals[place]!,
        scores: place === undefined ? [] : run!.scores.map((scores) => scores[place]!),
      };
    });
  }
}

/** The attributes change in place, so a record needs a copy. */
function furtherOf({ attributes, listedModels, node }: Endpoint): Partial<RecordedEndpoint> {
  return {
    ...(attributes === undefined || attributes.size === 0 ? {} : { attributes: new Map(attributes) }),
    ...(listedModels === undefined ? {} : { listedModels }),
    ...(node === undefined ? {} : { node }),
  };
}

/** Returns every value of one request header, shortened. */
function kept({ keys, values }: HeaderList, name: string): [string, string][] {
  return keys.flatMap((key, at) => (key === name ? [[name, shortened(values[at]!)]] : []));
}

/** Estimates the bytes that a full record keeps alive. */
export function fullRecordBytes(record: FullRecord): number {
  const columns = Object.values(record.columns).reduce((sum, column) => sum + 8 * column.length, 0);
  const headers = record.request.headers.reduce((sum, [, value]) => sum + 64 + 2 * value.length, 0);
  return 2048 + columns + headers + record.endpoints.reduce((sum, { scores }) => sum + 512 + 8 * scores.length, 0);
}
