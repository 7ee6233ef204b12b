import type { HeaderList } from "../../base/inference/headers.ts";
import type { InferenceCore } from "../../picker/core/inference-core.ts";
import { modelNotFound, type ServedModel, UNLISTED_MODEL } from "../../pool/endpoints/served-models.ts";
import { ANTHROPIC_VERSION } from "../proxy/api-shapes.ts";
import { jsonAnswer, type OwnAnswer, rejectionAnswer } from "../proxy/local-answer.ts";
import { pathOf, withoutLastSlash } from "../proxy/path-pattern.ts";

const LIST = "/v1/models";
const ONE = `${LIST}/`;

/**
 * Answers `GET /v1/models` and `GET /v1/models/{name}` for all endpoints together: the models that they serve, and the names that
 * API objects give a meaning; HEAD gets the same headers. A caller sees only the models of its key; `pathsOfOtherModels` has
 * refused the other names before. While too little is known, the request goes to an
 * endpoint instead.
 */
export function modelList({ endpoints, models }: Pick<InferenceCore, "endpoints" | "models">): OwnAnswer {
  let revision = -1;
  let served: ReadonlyMap<string, ServedModel> = new Map();
  const all = (): ReadonlyMap<string, ServedModel> => {
    if (revision !== endpoints.modelsRevision) {
      served = servedBy(endpoints.list());
      revision = endpoints.modelsRevision;
    }
    return withAliases(served, models.aliases(), models.enforcing);
  };
  return ({ method, path, headers }, client, caller) => {
    if ((method !== "GET" && method !== "HEAD") || !path.startsWith(LIST) || !models.poolKnown) return undefined;
    // Servers read the path with and without the last slash alike, and a caller must not see their whole list.
    const place = withoutLastSlash(pathOf(path));
    const mine = caller?.models;
    if (place === LIST) {
      const found = all();
      // An endpoint would list models that the caller may not use.
      if (served.size === 0 && mine === undefined) return undefined;
      const names = [...found.keys()].filter((id) => mine?.has(id) ?? true).sort();
      const data = names.map((id) => shown(id, found.get(id)!, headers));
      const list = headers?.get(ANTHROPIC_VERSION) === undefined ? { object: "list", data } : page(data);
      return jsonAnswer(list, client.requestId);
    }
    const name = place.startsWith(ONE) ? nameIn(place.slice(ONE.length)) : "";
    if (name === "") return undefined;
    const found = all();
    const one = found.get(name);
    if (one !== undefined) return jsonAnswer(shown(name, one, headers), client.requestId);
    // An endpoint whose list is unknown may have it.
    const maybe = endpoints.size === 0 || endpoints.candidates(undefined, name).endpoints.length > 0;
    if (maybe && !models.enforcing) return undefined;
    const refusal = modelNotFound(name, name, [...found.keys()].filter((id) => mine?.has(id) ?? true).sort());
    return rejectionAnswer(refusal, client.answerId(refusal));
  };
}

/** The models of all endpoints. What a server says about a model counts more than a name in the endpoints file. */
function servedBy(list: ReturnType<InferenceCore["endpoints"]["list"]>): ReadonlyMap<string, ServedModel> {
  const found = new Map<string, ServedModel>();
  for (const source of ["server", "file"] as const)
    for (const { models } of list) {
      if (models?.source !== source || models.byName === "any") continue;
      for (const [name, model] of models.byName) if (!found.has(name)) found.set(name, model);
    }
  return found;
}

/** @param only a name without an InferenceModel or a rewrite rule is refused */
function withAliases(
  served: ReadonlyMap<string, ServedModel>,
  aliases: ReadonlySet<string>,
  only: boolean,
): ReadonlyMap<string, ServedModel> {
  if (aliases.size === 0 && !only) return served;
  const found = new Map(only ? [] : served);
  for (const name of aliases) found.set(name, served.get(name) ?? UNLISTED_MODEL);
  return found;
}

/** A model as the client's API describes it. */
function shown(id: string, model: ServedModel, headers: HeaderList | undefined): object {
  const one = entry(id, model);
  if (headers?.get(ANTHROPIC_VERSION) === undefined) return one;
  const created = new Date(model.created * 1000);
  const at = Number.isNaN(created.getTime()) ? new Date(0) : created;
  return { ...one, type: "model", display_name: id, created_at: at.toISOString() };
}

/** The only page of a list in the shape of Anthropic's API. */
function page(data: readonly object[]): object {
  const ids = data.map((model) => (model as { id: string }).id);
  return { data, has_more: false, first_id: ids[0] ?? null, last_id: ids.at(-1) ?? null };
}

/** The shape of OpenAI's API, with the further members that vLLM has. */
function entry(id: string, { created, ownedBy, root, parent, maxModelLen }: ServedModel): object {
  return { id, object: "model", created, owned_by: ownedBy, root, parent, max_model_len: maxModelLen };
}

/** The name in a path, "" when it is not readable. A name may contain slashes. */
function nameIn(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return "";
  }
}
