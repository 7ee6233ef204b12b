import { nearest } from "../../base/document/nearest.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { memberRanges } from "../brokers/messages/json-members.ts";
import { isObject } from "../brokers/messages/request.ts";

/** A line of a batch file, in the format of OpenAI's batch API. */
export interface BatchLine {
  readonly problem?: undefined;
  readonly customId: string;
  /** A path. */
  readonly url: string;
  /** JSON text of the body, as it stands in the line. */
  readonly body: string;
}

/** A line that is none. */
export interface BadLine {
  readonly problem: string;
  /** Where it can be read all the same. */
  readonly customId?: string;
}

const MEMBERS = ["custom_id", "method", "url", "body"] as const;
const LONGEST_ID = 1024;

/** Reads `{"custom_id", "method": "POST", "url": "/v1/...", "body": {...}}`; members that nobody knows are ignored. */
export function readBatchLine(text: string): BatchLine | BadLine {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { problem: `it is no JSON: ${messageOf(error)}` };
  }
  if (!isObject(value)) return { problem: "it must be a JSON object with custom_id, method, url and body" };
  const { custom_id: customId, method, url, body } = value;
  const missing = MEMBERS.find((name) => value[name] === undefined || value[name] === null);
  const known = typeof customId === "string" && customId !== "" && customId.length <= LONGEST_ID ? { customId } : {};
  if (missing !== undefined) return { ...known, problem: `${missing} is missing${meant(value, missing)}` };
  if (known.customId === undefined)
    return { problem: `custom_id must be a text of 1 to ${LONGEST_ID} characters, unique in the file` };
  if (method !== "POST") return { ...known, problem: `method must be "POST", not ${shown(method)}` };
  if (typeof url !== "string" || !/^\/[^\s?#]*$/.test(url))
    return { ...known, problem: `url must be a path such as "/v1/chat/completions", not ${shown(url)}` };
  if (!isObject(body)) return { ...known, problem: `body must be an object, not ${shown(body)}` };
  if (body["stream"] === true)
    return { ...known, problem: "body.stream is true, but answers of a batch are written as a whole: leave it away" };
  const { start, end } = memberRanges(text).get("body")!;
  return { customId: known.customId, url, body: text.slice(start, end) };
}

/** A member that may be the missing one, misspelt. */
function meant(value: Readonly<Record<string, unknown>>, missing: string): string {
  const other = Object.keys(value).find(
    (name) => !(MEMBERS as readonly string[]).includes(name) && nearest(name, [missing]) !== undefined,
  );
  return other === undefined ? "" : `; did you mean \`${missing}\` by ${JSON.stringify(other)}?`;
}

function shown(value: unknown): string {
  return String(JSON.stringify(value)).slice(0, 100);
}
