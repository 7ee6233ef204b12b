import type { Random } from "../../base/clock/random.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { oneLine } from "../../base/inference/errors.ts";
import { firstHeader, HEADER, type HeaderList, requestPath } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { Parity } from "../../base/inference/parity.ts";
import type { ParsedBody } from "../../base/inference/request.ts";
import type { ModelEntry } from "./model-table.ts";
import type { ObjectiveTable } from "./objectives.ts";
import { type Criticality, GROUP } from "./objects.ts";
import type { ResourceStore } from "./resource-store.ts";

/** The flow of requests that name none. */
const DEFAULT_FAIRNESS_ID = "default-flow";
/** A criticality as a priority (docs/spec/decisions.md#criticality). A model without one is Standard. */
const PRIORITY: Readonly<Record<Criticality, number>> = { Critical: 1, Standard: 0, Sheddable: -1 };
/** The priorities of the three criticalities, highest first. */
export const CRITICALITY_PRIORITIES: readonly number[] = Object.values(PRIORITY);
/** Default saturation from which Standard requests may be refused. */
export const STANDARD_SHED_AT = 2;

/**
 * Whether InferenceModels count. `enforce`: a model name without one is answered 404. `auto`: the same for a pool of v1alpha2,
 * after the first InferenceModel of such a pool was seen, until the process ends. Otherwise names without one are passed
 * through. `off`: InferenceModels are ignored.
 */
export const MODEL_MATCHING = ["auto", "enforce", "off"] as const;
export type ModelMatching = (typeof MODEL_MATCHING)[number];

export interface ResolverOptions {
  readonly random: Random;
  /** From `--objective` flags; they win over InferenceObjectives of the same name. */
  readonly objectives: ObjectiveTable;
  /** Absent = no API objects: every request may be served, under its own model name. */
  readonly resources?: ResourceStore | undefined;
  /** Default auto. */
  readonly matching?: ModelMatching | undefined;
  /** Saturation from which requests of Standard InferenceModels get 429, at least 1; default 2. */
  readonly standardShedAt?: number | undefined;
  /** Standard InferenceModels are shed like Sheddable ones, as in v0.3 to v0.5. */
  readonly legacyCriticality?: boolean | undefined;
  /** The priorities that keys and tokens state. */
  readonly keyPriorities?: (() => Iterable<number>) | undefined;
  /** With v1.5 only the older header names a flow, and no InferenceModel does (scheduling 6.10). */
  readonly parity?: Parity | undefined;
  /** Called whenever the rule of an InferenceModelRewrite has chosen a target. */
  readonly onRewrite?: ((rewrite: string, model: string, target: string) => void) | undefined;
}

/** The configured models and objectives, and how they count. */
export type ModelOptions = Omit<ResolverOptions, "random" | "onRewrite" | "parity">;

/** The meaning of a request's model name and control headers. */
export interface ResolvedModel {
  /** The model in the request to the model server. */
  readonly targetModel: string;
  /** The objective's name; "" when the request names none or an unknown one, so that clients can't invent names. */
  readonly objective: string;
  /** Below 0 = sheddable. */
  readonly priority: number;
  /** As in `InferenceRequest`. */
  readonly shedAt: number;
  readonly fairnessId: string;
  /** As in `InferenceRequest`. */
  readonly fairnessWeight: number;
}

/** The parts of a body that name its model. */
export type NamedBody = Pick<ParsedBody, "model" | "modelRange" | "modelInsertAt">;

/** Finds target model, objective, priority and fairness ID of requests. */
export class ModelResolver {
  readonly #options: ResolverOptions;
  /** Saturation from which a request gets 429, by the criticality of its InferenceModel. */
  readonly #shedAt: Readonly<Record<Criticality, number>>;

  constructor(options: ResolverOptions) {
    this.#options = options;
    const standard = options.legacyCriticality ? 1 : (options.standardShedAt ?? STANDARD_SHED_AT);
    this.#shedAt = { Critical: Number.POSITIVE_INFINITY, Standard: standard, Sheddable: 1 };
  }

  /** There is a pool to serve: without one no endpoint is a candidate (E-130). Always true where no API objects are read. */
  get poolKnown(): boolean {
    return this.#options.resources?.synced ?? true;
  }

  /** The priorities that requests can have at present: those of all objectives and keys, and of criticalities while a model has one. */
  priorities(): ReadonlySet<number> {
    const { objectives, resources, matching, keyPriorities } = this.#options;
    const found = new Set(objectives.priorities());
    for (const priority of keyPriorities?.() ?? []) found.add(priority);
    if (resources === undefined) return found;
    for (const priority of resources.priorities()) found.add(priority);
    if (matching !== "off")
      for (const { winner } of resources.models()) found.add(PRIORITY[winner.criticality ?? "Standard"]);
    return found;
  }

  /** The model names that InferenceModels and rewrite rules give a meaning. */
  aliases(): ReadonlySet<string> {
    const { resources, matching } = this.#options;
    const names = new Set(resources?.rewritten());
    if (resources !== undefined && matching !== "off")
      for (const { winner } of resources.models()) names.add(winner.modelName);
    return names;
  }

  /**
   * Whether InferenceModels of a v1alpha2 pool are present and count. Undefined without a pool: then nobody can say
   * (docs/spec/decisions.md#model-fairness).
   */
  get modelsPresent(): boolean | undefined {
    const { resources, matching } = this.#options;
    if (resources === undefined || matching === "off") return false;
    if (resources.pool === undefined) return undefined;
    return resources.pool.group === GROUP.experimental && resources.hasModels;
  }

  /** Whether a flag says from which saturation on InferenceModels are shed. Flow control sheds none. */
  get shedsByFlag(): boolean {
    const { standardShedAt = STANDARD_SHED_AT, legacyCriticality = false } = this.#options;
    return legacyCriticality || standardShedAt !== STANDARD_SHED_AT;
  }

  /** A model name without an InferenceModel is answered 404. */
  get enforcing(): boolean {
    const { resources, matching = "auto" } = this.#options;
    // Without a pool no InferenceModel counts; such requests end with 503.
    if (resources?.pool === undefined) return false;
    if (matching !== "auto") return matching === "enforce";
    // An InferenceModel of v1alpha2 may have been seen before the pool of v1, which needs no InferenceModels.
    return resources.modelSeen && resources.pool.group === GROUP.experimental;
  }

  /**
   * The first source with a target decides the target model: the InferenceModelRewrite rule for the name in the body, the
   * InferenceModel of that name, the rewrite header, the body. A body without a name counts as naming the model of the header.
   * Bodies that cannot name a model keep none and match nothing.
   *
   * The priority is that of the objective which a header names, else of the one of the caller, else the priority of the caller.
   * Without any, it follows from the criticality of the InferenceModel;
   * else it is 0. The weight comes from the first of both that states one. The `x-llm-d-...` headers win over the
   * `x-gateway-...` aliases; an empty value counts as absent. Source: epp-protocol 10.6-10.9, api-resources 2,
   * docs/spec/decisions.md#unknown-model.
   *
   * @returns a rejection for a model that is missing (400), has no InferenceModel while one is needed, or whose InferenceModel
   * leaves no target (404)
   * @param caller who sends the request, where clients need keys; its headers count as far as they are still there
   */
  resolve(body: NamedBody, headers: HeaderList, caller?: Caller): ResolvedModel | Rejection {
    const { resources, matching } = this.#options;
    let targetModel = body.model;
    let entry: ModelEntry | undefined;
    if (body.modelRange !== undefined || body.modelInsertAt >= 0) {
      const header = this.modelNamed(headers);
      const asked = body.model === "" ? (header ?? "") : body.model;
      if (matching !== "off") entry = resources?.model(asked);
      const target = this.#ruled(body.model) ?? this.#modelled(asked, entry) ?? header ?? body.model;
      if (target instanceof Rejection) return target;
      if (target === "") return new Rejection("model_missing", "model not found in request body");
      targetModel = target;
    }
    const { named, stated } = this.#stated(headers, caller);
    let priority = stated ?? 0;
    let shedAt = priority < 0 ? 1 : Number.POSITIVE_INFINITY;
    if (stated === undefined && entry !== undefined) {
      const criticality = entry.model.criticality ?? "Standard";
      priority = PRIORITY[criticality];
      shedAt = this.#shedAt[criticality];
    }
    return {
      targetModel,
      objective: named,
      priority,
      shedAt,
      fairnessId:
        this.flowNamed(headers, caller) ??
        // Each key is a flow of its own unless its file says otherwise, so that no key takes the share of another.
        caller?.name ??
        (this.#isV15 ? undefined : entry?.model.modelName) ??
        DEFAULT_FAIRNESS_ID,
      fairnessWeight:
        (named === "" ? undefined : resources?.objectiveWeight(named)) ?? entry?.model.fairnessWeight ?? 1,
    };
  }

  /** The fairness ID that the client names, else the one of its key. */
  flowNamed(headers: HeaderList, caller?: Caller): string | undefined {
    const name = this.#isV15 ? HEADER.fairnessIdAlias : HEADER.fairnessId;
    return controlText(headers, name, HEADER.fairnessIdAlias) ?? caller?.fairnessId;
  }

  /**
   * Whether a caller may use the model of a request, under each name that the client gives it: in the path, in the body, and in
   * the header that replaces it. A body that names no model reaches any, so it is for callers with every model.
   */
  allows({ models }: Caller, { model }: Pick<NamedBody, "model">, headers: HeaderList): boolean {
    if (models === undefined) return true;
    const inPath = modelInPath(requestPath(headers));
    if (inPath !== undefined && !models.has(inPath)) return false;
    const header = this.modelNamed(headers);
    if (header !== undefined && !models.has(header)) return false;
    return model === "" ? header !== undefined : models.has(model);
  }

  /** The model that the rewrite header names. */
  modelNamed(headers: HeaderList): string | undefined {
    return controlText(headers, HEADER.modelRewrite, HEADER.modelRewriteAlias);
  }

  /** The objective that counts, "" for none, and its priority; undefined when nobody states one. */
  #stated(headers: HeaderList, caller: Caller | undefined): { named: string; stated: number | undefined } {
    for (const named of [controlText(headers, HEADER.objective, HEADER.objectiveAlias), caller?.objective]) {
      const stated = named === undefined ? undefined : this.#priority(named);
      if (stated !== undefined) return { named: named!, stated };
    }
    return { named: "", stated: caller?.priority };
  }

  get #isV15(): boolean {
    return this.#options.parity === "v1.5";
  }

  /** The target that a rewrite rule draws; undefined when no rule applies to this name. */
  #ruled(model: string): string | undefined {
    const { resources, random, onRewrite } = this.#options;
    const match = resources?.rewrite(model);
    const target = match?.draw?.draw(random);
    if (target !== undefined) onRewrite?.(match!.rewrite, model, target);
    return target;
  }

  /** The target that the InferenceModel of the name draws; undefined when there is none and none is needed. */
  #modelled(asked: string, entry: ModelEntry | undefined): string | Rejection | undefined {
    if (entry !== undefined) {
      const target = entry.draw === undefined ? asked : entry.draw.draw(this.#options.random);
      if (target) return target;
      const text = `error getting target model name for model ${asked}: no valid target model`;
      return new Rejection("unknown_model", oneLine(text));
    }
    if (asked === "" || !this.enforcing) return undefined;
    return new Rejection("unknown_model", oneLine(`error finding a model object in InferenceModel for input ${asked}`));
  }

  #priority(objective: string): number | undefined {
    const { objectives, resources } = this.#options;
    return objectives.has(objective) ? objectives.lookup(objective) : resources?.objective(objective);
  }
}

/** The model that Triton reads from its paths, whatever the body says. @param target path and query */
function modelInPath(target: string): string | undefined {
  const name = /^\/v2\/models\/([^/?]+)/.exec(target)?.[1];
  try {
    return name && decodeURIComponent(name);
  } catch {
    // No model has a name that cannot be read.
    return "";
  }
}

/** The value of a control header as text that equals names from bodies and manifests. */
function controlText(headers: HeaderList, name: string, alias: string): string | undefined {
  const value = firstHeader(headers, name, alias);
  // Header values hold one character per byte. Most are ASCII, and then the value is already the text.
  if (value === undefined || !/[\x80-\xff]/.test(value)) return value;
  return Buffer.from(value, "latin1").toString("utf8");
}
