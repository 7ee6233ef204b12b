import { at, excerpt, parseJson, refusal } from "./answers.ts";
import { APIS, ask } from "./generation.ts";
import type { HttpProbe, NoAnswer, ProbeAnswer } from "./http-probe.ts";
import { Finding, skipped, type Verdict } from "./verdict.ts";

/** The most entries of a model list that are read. */
const MAX_MODELS = 10_000;

/** A name that no server uses. */
const UNKNOWN_MODEL = "sluice-check-no-such-model";

/** The answer to `GET /v1/models`. */
export interface ModelList {
  readonly verdict: Verdict;
  /** The first model that is not an adapter; undefined when the list has none. */
  readonly first: string | undefined;
  /** The first entry with a parent: vLLM lists adapters in this way. */
  readonly adapter: string | undefined;
}

/** @param wanted the model that the user named */
export function checkModels(answer: ProbeAnswer | NoAnswer, wanted: string | undefined): ModelList {
  const refused = refusal("models", "GET /v1/models", answer);
  if (refused !== undefined || answer.kind === "none")
    return { verdict: refused!, first: undefined, adapter: undefined };
  const finding = new Finding("models");
  const data = at(parseJson(answer.body), "data");
  const entries = Array.isArray(data) ? data.slice(0, MAX_MODELS) : [];
  const named = entries.filter((entry) => typeof at(entry, "id") === "string");
  if (!Array.isArray(data))
    finding.broken(
      `GET /v1/models answered 200 without a list in \`data\`: ${excerpt(answer)}`,
      'answer {"object": "list", "data": [{"id": NAME, ...}]}',
    );
  else if (named.length === 0) finding.broken("the list names no model", "list every model that requests may name");
  else if (named.length < entries.length)
    finding.broken(`${entries.length - named.length} entries have no string \`id\``, "give every entry an `id`");
  const ids = named.map((entry) => at(entry, "id") as string);
  if (wanted !== undefined && ids.length > 0 && !ids.includes(wanted))
    finding.doubtful(`the model ${wanted} is not listed`, "list every model that requests may name");
  const isAdapter = (entry: unknown): boolean => typeof at(entry, "parent") === "string";
  const idOf = (entry: unknown): string | undefined => at(entry, "id") as string | undefined;
  return {
    verdict: finding.verdict(`GET /v1/models lists ${shown(ids)}`),
    first: idOf(named.find((entry) => !isAdapter(entry)) ?? named[0]),
    adapter: idOf(named.find(isAdapter)),
  };
}

/** Checks that the server refuses an unknown model with 404. */
export async function checkUnknownModel(probe: HttpProbe): Promise<Verdict> {
  const answer = await ask(probe, "completions", UNKNOWN_MODEL, "Hello");
  const { path } = APIS.completions;
  if (answer.kind === "none") return refusal("unknownModel", `POST ${path}`, answer)!;
  const finding = new Finding("unknownModel");
  if (answer.status === 401 || answer.status === 403) return refusal("unknownModel", `POST ${path}`, answer)!;
  if (answer.status === 200)
    finding.broken(
      `a request for the model ${UNKNOWN_MODEL} was served`,
      "answer 404, so that a mistyped name does not get another model's answer",
    );
  else if (answer.status !== 404)
    finding.broken(
      `a request for the model ${UNKNOWN_MODEL} was answered ${answer.status}: ${excerpt(answer)}`,
      "answer 404",
    );
  return finding.verdict(`a request for the model ${UNKNOWN_MODEL} was answered 404`);
}

/** Checks that an adapter is served under its own name. @param adapter undefined when none is known */
export async function checkAdapter(probe: HttpProbe, adapter: string | undefined): Promise<Verdict> {
  if (adapter === undefined)
    return skipped("adapter", "no adapter is listed", { remedy: "if there is an adapter, name it with --lora" });
  const answer = await ask(probe, "completions", adapter, "Hello");
  const refused = refusal("adapter", `POST ${APIS.completions.path} with model ${adapter}`, answer);
  if (refused !== undefined || answer.kind === "none") return refused!;
  const finding = new Finding("adapter");
  const json = parseJson(answer.body);
  if (typeof at(json, "choices", 0, "text") !== "string")
    finding.broken(
      `the adapter ${adapter} was answered without choices[0].text`,
      "serve the adapter like any other model",
    );
  const name = at(json, "model");
  if (name !== adapter)
    finding.doubtful(
      `the model in the answer is ${JSON.stringify(name)?.slice(0, 100) ?? "missing"}`,
      "answer with the name of the adapter",
    );
  return finding.verdict(`POST ${APIS.completions.path} with model ${adapter} was served`);
}

function shown(ids: readonly string[]): string {
  const names = ids.slice(0, 5).join(", ");
  return ids.length > 5 ? `${names} and ${ids.length - 5} more` : names;
}
