import { didYouMean } from "../../base/document/nearest.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { oneLine } from "../../base/inference/errors.ts";
import { Rejection } from "../../base/inference/outcomes.ts";

/** The most models of one endpoint. */
export const MAX_MODELS = 1024;
/** The longest name of a model, in characters; also of the other texts about one. */
export const MAX_MODEL_NAME = 1024;
/** The entry of `models:` that means every name. */
const EVERY = "*";
/** The most names that a refusal lists, and the most that it compares with the wanted name. */
const NAMES_TOLD = 10;
const NAMES_COMPARED = 256;

/** One model or adapter, as a model server lists it in `GET /v1/models`. */
export interface ServedModel {
  /** Seconds since the Unix epoch; 0 = unknown. */
  readonly created: number;
  readonly ownedBy: string;
  /** Undefined or null as in the list of the server. Of an adapter: its path, and the name of its base model. */
  readonly root: string | null | undefined;
  readonly parent: string | null | undefined;
  /** Tokens. */
  readonly maxModelLen: number | undefined;
}

/** The models of one endpoint. */
export interface ServedModels {
  /** `file`: the endpoints file states them. `server`: the model server has listed them. */
  readonly source: "file" | "server";
  /** `any`: the endpoint serves every name. */
  readonly byName: ReadonlyMap<string, ServedModel> | "any";
}

/** A model that no server has listed: the endpoints file states its name, or an API object gives the name a meaning. */
export const UNLISTED_MODEL: ServedModel = {
  created: 0,
  ownedBy: "sluice",
  root: undefined,
  parent: undefined,
  maxModelLen: undefined,
};

/** The models that the endpoints file states. @param names checked by the reader of the file */
export function statedModels(names: readonly string[]): ServedModels {
  return {
    source: "file",
    byName: names.includes(EVERY) ? "any" : new Map(names.map((name) => [name, UNLISTED_MODEL])),
  };
}

/** The violation in the value of `models:` in an endpoints file; undefined = it is valid. */
export function wrongModels(value: unknown): { readonly at: readonly number[]; readonly problem: string } | undefined {
  if (!Array.isArray(value) || value.length === 0)
    return { at: [], problem: "must be a list of one or more model names; leave it out to ask the server" };
  if (value.length > MAX_MODELS) return { at: [], problem: `must not have more than ${MAX_MODELS} names` };
  const seen = new Set<string>();
  for (const [i, name] of value.entries()) {
    if (typeof name !== "string") return { at: [i], problem: "must be a string; put it in quotes" };
    if (!isModelName(name))
      return { at: [i], problem: `must have 1 to ${MAX_MODEL_NAME} characters and no control characters` };
    if (seen.has(name)) return { at: [i], problem: "is listed twice" };
    seen.add(name);
    if (name === EVERY && value.length > 1)
      return { at: [i], problem: `"${EVERY}" means every name and must be the only entry` };
  }
  return undefined;
}

function isModelName(name: string): boolean {
  return name !== "" && name.length <= MAX_MODEL_NAME && !/\p{Cc}/u.test(name);
}

/**
 * Reads the answer to `GET /v1/models`.
 * @returns what is wrong with it, for people, when it is no list of 1 to 1,024 names
 */
export function modelsIn(body: string): ServedModels | string {
  let document: unknown;
  try {
    document = JSON.parse(body);
  } catch {
    return "the answer is not JSON";
  }
  const data = (document as { data?: unknown } | null)?.data;
  if (!Array.isArray(data)) return "the answer has no list `data`";
  if (data.length > MAX_MODELS) return `the answer lists more than ${MAX_MODELS} models`;
  const byName = new Map<string, ServedModel>();
  for (const entry of data as readonly (Readonly<Record<string, unknown>> | null)[]) {
    const id = entry?.id;
    if (typeof id !== "string" || !isModelName(id)) return "an entry of the answer has no usable `id`";
    byName.set(id, {
      created: wholeNumber(entry!.created) ?? 0,
      ownedBy: text(entry!.owned_by) ?? "unknown",
      root: entry!.root === null ? null : text(entry!.root),
      parent: entry!.parent === null ? null : text(entry!.parent),
      maxModelLen: wholeNumber(entry!.max_model_len),
    });
  }
  return byName.size === 0 ? "the answer lists no model" : { source: "server", byName };
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value.length <= MAX_MODEL_NAME ? value : undefined;
}

function wholeNumber(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}

/** Whether two lists of an endpoint say the same. Times do not count: vLLM gives the time of the question. */
export function sameModels(a: ServedModels | undefined, b: ServedModels | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a.source !== b.source) return false;
  if (a.byName === "any" || b.byName === "any") return a.byName === b.byName;
  if (a.byName.size !== b.byName.size) return false;
  for (const [name, one] of a.byName) {
    const other = b.byName.get(name);
    if (other === undefined || one.ownedBy !== other.ownedBy || one.root !== other.root) return false;
    if (one.parent !== other.parent || one.maxModelLen !== other.maxModelLen) return false;
  }
  return true;
}

/** The names in a list; none where it is unknown, or stands for every name. */
export function namesOf(models: ServedModels | undefined): readonly string[] {
  return models === undefined || models.byName === "any" ? [] : [...models.byName.keys()];
}

/** Whether an endpoint serves a model, as far as is known: one whose models are unknown serves every name. */
export function serves(models: ServedModels | undefined, name: string): boolean {
  return models === undefined || models.byName === "any" || models.byName.has(name);
}

/**
 * The refusal of a request for a model that no endpoint serves.
 * @param target the name that no endpoint serves
 * @param asked the name that the client sent
 * @param names the models that there are, sorted
 */
export function modelNotFound(target: string, asked: string, names: readonly string[]): Rejection {
  const alias = asked === target || asked === "" ? "" : `, the target of \`${asked.slice(0, 128)}\``;
  const detail = `no endpoint serves the model \`${target.slice(0, 128)}\`${alias}${instead(target, names)}`;
  return new Rejection("model_not_found", oneLine(detail));
}

/** The refusal of a request for a model that its caller may not use. It names only what the caller may use. */
export function modelNotAllowed(asked: string, { models }: Pick<Caller, "models">): Rejection {
  const what =
    asked === "" ? "the request names no model" : `this key may not use the model \`${asked.slice(0, 128)}\``;
  return new Rejection("model_not_allowed", oneLine(`${what}${instead(asked, [...models!].sort())}`));
}

/** The end of the sentence: the nearest name, and the first names. @param names sorted */
function instead(wanted: string, names: readonly string[]): string {
  const hint = didYouMean(wanted, names.slice(0, NAMES_COMPARED)) || ".";
  const listed = names.slice(0, NAMES_TOLD).map((name) => `\`${name.slice(0, 128)}\``);
  const more = names.length - listed.length;
  return listed.length === 0
    ? hint
    : `${hint} The models are ${listed.join(", ")}${more > 0 ? ` and ${more} more` : ""}.`;
}
