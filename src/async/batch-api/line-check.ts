import { isObject } from "../../base/document/json-object.ts";
import { nearest } from "../../base/document/nearest.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { BatchProblem } from "./records.ts";

/** The endpoints that lines of a batch may call. */
export const BATCH_ENDPOINTS = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"] as const;

/** Characters of the longest custom_id. */
const LONGEST_ID = 512;
const MEMBERS = ["custom_id", "method", "url", "body"] as const;

/** What every line of a batch must be. */
export interface LineRules {
  readonly endpoint: string;
  /** Models that the caller may use; undefined = every model. */
  readonly models: ReadonlySet<string> | undefined;
}

/** The result for one line. The custom id is there whenever it is legal, so that duplicates are found among bad lines, too. */
export interface CheckedLine {
  readonly customId: string | undefined;
  /** Undefined: the line can be sent. */
  readonly problem: Omit<BatchProblem, "line"> | undefined;
}

/** Checks a line `{"custom_id", "method": "POST", "url", "body": {"model", ...}}`; unknown members are ignored. */
export function checkLine(text: string, { endpoint, models }: LineRules): CheckedLine {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return bad(undefined, "invalid_json_line", `this line is not valid JSON: ${withoutText(error)}`, null);
  }
  if (!isObject(value))
    return bad(
      undefined,
      "invalid_json_line",
      "this line is not a JSON object with custom_id, method, url and body",
      null,
    );
  const { custom_id: id, method, url, body } = value;
  const customId = typeof id === "string" && id !== "" && id.length <= LONGEST_ID ? id : undefined;
  for (const name of MEMBERS)
    if (value[name] === undefined || value[name] === null)
      return bad(customId, "missing_required_parameter", `${name} is missing${meant(value, name)}`, name);
  if (customId === undefined)
    return bad(
      undefined,
      "invalid_custom_id",
      `custom_id must be a string of 1 to ${LONGEST_ID} characters`,
      "custom_id",
    );
  if (method !== "POST")
    return bad(customId, "invalid_method", `method must be "POST", not ${shown(method)}`, "method");
  if (url !== endpoint)
    return bad(
      customId,
      "mismatched_url",
      `url must be the endpoint of the batch, ${endpoint}, not ${shown(url)}`,
      "url",
    );
  if (!isObject(body)) return bad(customId, "invalid_body", `body must be an object, not ${shown(body)}`, "body");
  const { model } = body;
  if (model === undefined || model === null)
    return bad(customId, "missing_required_parameter", `body.model is missing${meant(body, "model")}`, "body.model");
  if (typeof model !== "string" || model === "")
    return bad(customId, "invalid_model", `body.model must be the name of a model, not ${shown(model)}`, "body.model");
  if (models !== undefined && !models.has(model))
    return bad(customId, "model_not_found", `the key may not use the model ${shown(model)}`, "body.model");
  if (body["stream"] === true)
    return bad(
      customId,
      "stream_not_supported",
      "body.stream must not be true: a batch cannot stream its answers",
      "body.stream",
    );
  return { customId, problem: undefined };
}

function bad(customId: string | undefined, code: string, message: string, param: string | null): CheckedLine {
  return { customId, problem: { code, message, param } };
}

/** A hint when another member looks like the missing one, misspelt; else "". */
function meant(value: Readonly<Record<string, unknown>>, missing: string): string {
  const other = Object.keys(value)
    .slice(0, 100)
    .find(
      (name) =>
        name.length < 100 && !(MEMBERS as readonly string[]).includes(name) && nearest(name, [missing]) !== undefined,
    );
  return other === undefined ? "" : `; did you mean ${missing} instead of ${JSON.stringify(other)}?`;
}

function shown(value: unknown): string {
  const text = String(JSON.stringify(value));
  return text.length <= 100 ? text : `${text.slice(0, 100)}...`;
}

/** V8 quotes the text that it cannot read, and that text is a prompt. */
function withoutText(error: unknown): string {
  const at = / at position (\d+)/.exec(messageOf(error))?.[1];
  return at === undefined ? "it ends early" : `there is an error at character ${Number(at) + 1}`;
}
