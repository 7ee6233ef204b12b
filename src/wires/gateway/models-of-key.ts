import { modelNotAllowed } from "../../pool/endpoints/served-models.ts";
import { type OwnAnswer, rejectionAnswer } from "../proxy/local-answer.ts";
import { pathOf, plainPath, withoutLastSlash } from "../proxy/path-pattern.ts";

/** The model that a path names: OpenAI's, where a name may have slashes, and Triton's. */
const NAMED = [/^\/v1\/models\/(.+)$/, /^\/v2\/(?:repository\/)?models\/([^/]+)/];
/** Paths of SGLang that tell the model of whichever server answers. */
const TELLING: ReadonlySet<string> = new Set(["/get_model_info", "/model_info"]);
/** What a path names that tells of models nobody can say. No model has this name. */
const UNKNOWN = "";

/**
 * Refuses a request whose path names a model that its caller may not use, by any method: an endpoint would tell the caller whether
 * the model exists. The answer is the same for a model that does not exist. The exchange checks what headers and bodies name.
 */
export const pathsOfOtherModels: OwnAnswer = ({ path }, client, caller) => {
  const models = caller?.models;
  if (models === undefined) return undefined;
  const name = modelIn(path);
  if (name === undefined || models.has(name)) return undefined;
  const refusal = modelNotAllowed(name, { models });
  return rejectionAnswer(refusal, client.answerId(refusal));
};

/** The model of which an answer to the path tells; undefined = of none, or of all alike. @param target path and query */
function modelIn(target: string): string | undefined {
  const path = plainPath(pathOf(target));
  // Only `--allow-path '/*'` lets such a path pass.
  if (path === undefined) return UNKNOWN;
  const plain = withoutLastSlash(path);
  if (TELLING.has(plain)) return UNKNOWN;
  for (const pattern of NAMED) {
    const name = pattern.exec(plain)?.[1];
    if (name !== undefined) return name;
  }
  return undefined;
}
