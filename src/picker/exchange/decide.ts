import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { BytesPerToken } from "../../base/inference/bytes-per-token.ts";
import type { Caller } from "../../base/inference/caller.ts";
import type { DecisionRecord, SchedulingResult } from "../../base/inference/decision-record.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { type HeaderList, requestPath } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { RequestHeaderProcessor } from "../../base/plugin/kinds.ts";
import type { CandidateSet } from "../../pool/endpoints/candidate-sets.ts";
import type { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import { modelNotAllowed, modelNotFound } from "../../pool/endpoints/served-models.ts";
import type { ModelResolver } from "../../pool/resources/resolve.ts";
import type { ParserTable } from "../apis/parser-table.ts";
import type { LegacyAdmission } from "../flowcontrol/legacy-admission.ts";
import type { SpareRoom } from "../flowcontrol/spare-room.ts";
import { refusalIn, refusePromise } from "../scheduling/plugin-calls.ts";
import type { ScheduleExtras, Scheduler } from "../scheduling/scheduler.ts";
import { isText } from "../scheduling/tokens/learnable-text.ts";
import { FirstLook } from "./first-look.ts";
import type { Preparation, Preparing } from "./prepare.ts";
import { type PluginCalls, UNTIMED } from "./request-hooks.ts";
import type { Routed, SubsetHint } from "./wire.ts";

/** The most endpoints a decision lists. */
const MAX_LISTED = 8;
const NO_CANDIDATES: CandidateSet = { endpoints: [], down: [], poolSize: 0 };

/** The parts of a configuration that decide, besides the scheduler. */
export interface DecisionParts {
  readonly parsers: ParserTable;
  readonly headerProcessors: readonly NamedHeaderProcessor[];
  readonly admission: Pick<LegacyAdmission, "admit">;
}

interface DeciderParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly endpoints: EndpointRegistry;
  /** Returns the parts of the configuration in force. */
  readonly inForce: () => DecisionParts;
  readonly models: ModelResolver;
  readonly scheduler: Scheduler;
  /** The bytes per token that the process has learned for each model. Absent: 4 bytes count as one token. */
  readonly bytesPerToken?: BytesPerToken | undefined;
  /** The preparation by producers before a decision. Absent: producers prepare nothing. */
  readonly preparation?: Preparation | undefined;
  /** Returns the room for background requests. Absent or undefined: there are none. */
  readonly spareRoom?: () => SpareRoom | undefined;
  /** `--disable-endpoint-subset-filter`. */
  readonly ignoreSubset: boolean;
  /** A request-header processor threw; the request went on without it. */
  onPluginError(plugin: string, error: unknown): void;
  /** Measures the calls of header processors. */
  readonly calls?: PluginCalls | undefined;
}

/** A request that was understood, and the decision about it. */
export interface Decided {
  readonly request: InferenceRequest;
  readonly result: SchedulingResult | Rejection;
  /** The number of endpoints that the picker offers to a proxy. */
  readonly offered: number;
  /** The reasons of the decision. */
  readonly record: DecisionRecord;
}

/** A request after its header processors. */
export interface Processed {
  readonly request: InferenceRequest;
  /** The refusal of a processor, or of flow control. */
  readonly refusal: Rejection | undefined;
  /** Who sends it, where clients need keys. */
  readonly caller?: Caller | undefined;
}

/**
 * Leads from a complete request to an endpoint. It parses, resolves and calls the header processors. Then the request waits in
 * flow control, for the first look at the models of new endpoints, and for producers that prepare, where there are any. Candidates,
 * admission and scheduling follow in one synchronous stretch. The first failure wins, in this order (epp-protocol 9.3).
 */
export class RequestDecider {
  readonly #parts: DeciderParts;
  readonly #firstLook: FirstLook;

  constructor(parts: DeciderParts) {
    this.#parts = parts;
    this.#firstLook = new FirstLook(parts.endpoints);
  }

  /**
   * Routes a request without a body (`GET /v1/models`) to candidates in uniformly random order, without scheduling
   * (epp-protocol 3.2).
   */
  withoutBody(subset: SubsetHint | undefined): Routed | Rejection {
    const { endpoints } = this.#candidates(subset, "");
    if (endpoints.length === 0) return new Rejection("no_endpoints", "no pods available in datastore");
    return {
      kind: "routed",
      endpoints: draw(endpoints, this.#parts.random),
      offered: 1,
      body: [],
      bodyLength: 0,
      record: undefined,
      headers: undefined,
      metadata: undefined,
      scores: undefined,
      skipResponse: false,
    };
  }

  /** Returns the rejection of a request that has no body and needs one: a POST to a path whose bodies a parser reads. */
  emptyBody(headers: HeaderList): Rejection | undefined {
    const needsOne = headers.get(":method") === "POST" && this.#parts.inForce().parsers.claims(requestPath(headers));
    return needsOne
      ? new Rejection("bad_request", "empty request body", "the request body is empty; send a JSON object")
      : undefined;
  }

  /**
   * Parses a request and resolves its model and objective.
   * @param body contiguous and complete
   * @param caller who sends it, where clients need keys
   * @returns a rejection when the parser or the models refuse the request
   */
  understand(id: string, headers: HeaderList, body: Uint8Array, caller?: Caller): InferenceRequest | Rejection {
    const { models } = this.#parts;
    const chosen = this.#parts.inForce().parsers.select(requestPath(headers));
    if (chosen instanceof Rejection) return chosen;
    const parsed = chosen.parser.parse(body, chosen.path);
    if (parsed instanceof Rejection) return parsed;
    refusePromise(parsed);
    if (caller !== undefined && !models.allows(caller, parsed, headers)) return modelNotAllowed(parsed.model, caller);
    const resolved = models.resolve(parsed, headers, caller);
    if (resolved instanceof Rejection) return resolved;
    const { bytesPerToken } = this.#parts;
    const learned = bytesPerToken !== undefined && isText(parsed, body);
    // The code names each field, because spreading two objects takes four times as long, in every request.
    return {
      id,
      headers,
      body,
      model: parsed.model,
      modelRange: parsed.modelRange,
      modelInsertAt: parsed.modelInsertAt,
      answerFormat: parsed.answerFormat,
      streaming: parsed.streaming,
      cacheSalt: parsed.cacheSalt,
      prompts: parsed.prompts,
      escapeBytes: parsed.escapeBytes,
      maxTokens: parsed.maxTokens,
      answers: parsed.answers,
      targetModel: resolved.targetModel,
      objective: resolved.objective,
      priority: resolved.priority,
      shedAt: resolved.shedAt,
      fairnessId: resolved.fairnessId,
      fairnessWeight: resolved.fairnessWeight,
      bytesPerToken: learned ? bytesPerToken.of(resolved.targetModel) : undefined,
    } satisfies Required<InferenceRequest>;
  }

  /** Understands a request, and calls its header processors. Parameters as of `understand`. */
  read(id: string, headers: HeaderList, body: Uint8Array, caller: Caller | undefined): Processed | Rejection {
    const understood = this.understand(id, headers, body, caller);
    return understood instanceof Rejection ? understood : this.process(understood, caller);
  }

  /**
   * Waits for endpoints that have not yet said which models they serve, where the model depends on them. Then starts the
   * producers that prepare. Undefined when there is neither: the caller decides at once.
   */
  prepare(understood: InferenceRequest, subset: SubsetHint | undefined): Preparing | undefined {
    const { targetModel } = understood;
    return this.#firstLook.before(
      targetModel,
      () => this.#candidates(subset, targetModel).awaited === true,
      () => this.#parts.preparation?.begin(understood),
    );
  }

  /** Calls the request-header processors, before the request waits for anything. */
  process(understood: InferenceRequest, caller?: Caller): Processed {
    const { onPluginError, calls, models } = this.#parts;
    const { headerProcessors } = this.#parts.inForce();
    if (headerProcessors.length === 0) return { request: understood, refusal: undefined, caller };
    const named = models.flowNamed(understood.headers, caller) !== undefined;
    const { request, refusal } = processHeaders(headerProcessors, understood, named, onPluginError, calls);
    return { request, refusal, caller };
  }

  /**
   * Whether the hint of a proxy allows an endpoint that serves the model, or the pool has no endpoint at all. Otherwise waiting
   * would not help (E-58a).
   */
  mayWait(subset: SubsetHint | undefined, { targetModel }: InferenceRequest): boolean {
    const { endpoints, ignoreSubset } = this.#parts;
    return (
      endpoints.size === 0 || endpoints.candidates(ignoreSubset ? undefined : subset, targetModel).endpoints.length > 0
    );
  }

  /**
   * Decides where a request goes, from the state at this moment.
   * @param admitted flow control has let the request go: saturation does not refuse it any more
   */
  decide(
    { request, refusal: refused, caller }: Processed,
    subset: SubsetHint | undefined,
    extras?: ScheduleExtras,
    admitted = false,
  ): Decided {
    const { scheduler } = this.#parts;
    const spareRoom = caller?.background ? this.#parts.spareRoom?.() : undefined;
    const { endpoints: all, down, unserving } = this.#candidates(subset, request.targetModel);
    const endpoints = spareRoom === undefined ? all : spareRoom.withRoom(all);
    const refusal =
      refused ??
      (all.length === 0
        ? this.#nobody(request, caller)
        : endpoints.length === 0
          ? noRoom()
          : admitted
            ? undefined
            : this.#admit(request, endpoints));
    const more = down.length === 0 && unserving === undefined ? extras : { ...extras, down, unserving };
    const result =
      refusal === undefined
        ? scheduler.schedule(request, endpoints, down.length, more)
        : scheduler.refused(request, refusal, endpoints.length, down.length);
    return { request, result, offered: scheduler.offered, record: scheduler.records.newest! };
  }

  /** The endpoints that may serve a request now. */
  candidates(subset: SubsetHint | undefined, { targetModel }: InferenceRequest): readonly Endpoint[] {
    return this.#candidates(subset, targetModel).endpoints;
  }

  /** A detector that fails says nothing about the pool, so the request goes on as admitted. */
  #admit(request: InferenceRequest, endpoints: readonly Endpoint[]): Rejection | undefined {
    try {
      return this.#parts.inForce().admission.admit(request, endpoints, this.#parts.clock.now());
    } catch (error) {
      this.#parts.onPluginError("the saturation detector", error);
      return undefined;
    }
  }

  /**
   * The refusal of a request without candidates: the pool lacks its model, or it has no endpoint that is allowed. It names only
   * models that the caller may use.
   */
  #nobody({ model, targetModel }: InferenceRequest, caller: Caller | undefined): Rejection {
    const { endpoints, models, scheduler } = this.#parts;
    const lacks = models.poolKnown && endpoints.size > 0 && endpoints.candidates(undefined, targetModel);
    if (!lacks || lacks.endpoints.length > 0) return scheduler.noCandidates();
    const mine = caller?.models;
    const wanted = mine === undefined || mine.has(targetModel) ? targetModel : model;
    const names = new Set([...endpoints.modelNames(), ...models.aliases()]);
    return modelNotFound(
      wanted,
      model,
      [...names].filter((name) => name !== wanted && (mine?.has(name) ?? true)).sort(),
    );
  }

  #candidates(subset: SubsetHint | undefined, model: string): CandidateSet {
    const { endpoints, models, ignoreSubset } = this.#parts;
    // Without a pool, the known endpoints belong to no pool (E-130).
    if (!models.poolKnown) return NO_CANDIDATES;
    return endpoints.candidates(ignoreSubset ? undefined : subset, model);
  }
}

/** The refusal of a background request that found no room in time. It tells nothing about the load of the pool. */
export function noRoom(): Rejection {
  return new Rejection("evicted_priority", "no model server has room for a background request beside other requests");
}

/** Returns up to eight distinct endpoints in uniformly random order. */
function draw(from: readonly Endpoint[], random: Random): Endpoint[] {
  const pool = [...from];
  const count = Math.min(MAX_LISTED, pool.length);
  for (let i = 0; i < count; i++) {
    const other = i + random.below(pool.length - i);
    [pool[i], pool[other]] = [pool[other]!, pool[i]!];
  }
  return pool.slice(0, count);
}

/** A configured request-header processor. */
interface NamedHeaderProcessor {
  readonly name: string;
  readonly type: string;
  readonly plugin: RequestHeaderProcessor;
}

/**
 * Calls the request-header processors for a request whose model and objective are known (scheduling 3.2). The fairness ID that
 * a processor sets counts where the client names none; the first processor that sets one wins.
 * @param named whether the client names a fairness ID
 * @param onError receives the error of a processor that throws; the request goes on without that processor
 */
export function processHeaders(
  processors: readonly NamedHeaderProcessor[],
  request: InferenceRequest,
  named: boolean,
  onError: (plugin: string, error: unknown) => void,
  calls: PluginCalls = UNTIMED,
): Processed {
  let fairnessId: string | undefined;
  const setFairnessId = (id: string): void => {
    if (typeof id !== "string")
      throw new SluiceError("PLUGIN_ANSWER", `the fairness ID of a request must be a string, not a ${typeof id}`);
    if (id !== "") fairnessId ??= id;
  };
  for (const processor of processors) {
    const started = calls.now();
    try {
      const refusal = refusalIn(processor.plugin.process({ request, setFairnessId }));
      if (refusal !== undefined) return { request, refusal };
    } catch (error) {
      onError(processor.name, error);
    } finally {
      calls.called("RequestHeader", processor, calls.now() - started);
    }
  }
  return { request: named || fairnessId === undefined ? request : { ...request, fairnessId }, refusal: undefined };
}
