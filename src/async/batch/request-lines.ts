import { isObject } from "../../base/document/json-object.ts";
import { LineSplitter, lineText, type TextLine } from "../../base/document/line-splitter.ts";
import { didYouMean, nearest } from "../../base/document/nearest.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { memberRanges } from "../brokers/messages/json-members.ts";
import type { SubmitRequest } from "../brokers/queue-client.ts";

/** The fields of a request that names none itself. */
export interface RequestDefaults {
  /** Unix seconds. */
  readonly deadline: number;
  /** Unix seconds; deadlines up to this moment have passed. */
  readonly now: number;
  readonly metadata: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly endpoint: string | undefined;
  readonly requestQueueName: string;
  readonly resultQueueName: string;
  newId(): string;
}

/** Members of a request (async-processor 4.1) as users and other producers write it. Sluice sets `created`. */
const MEMBERS = [
  ...["id", "created", "deadline", "payload", "metadata", "headers", "labels", "endpoint"],
  ...["request_queue_name", "result_queue_name"],
] as const;

/** Unix seconds of the year 5138: beyond it a deadline is in milliseconds. */
const LATEST = 1e11;

/**
 * Makes a submission of a JSON object: of a request, which the member `payload` marks, or of a payload alone. The text of the
 * payload stays as it is.
 * @throws SluiceError REQUEST_INVALID
 */
export function readRequestText(text: string, defaults: RequestDefaults): SubmitRequest {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw invalid(`not valid JSON: ${messageOf(error)}`);
  }
  if (!isObject(value)) throw invalid("it must be a JSON object: a payload, or a request with a payload in it");
  if (!isObject(value["payload"])) {
    refuseNearRequest(value);
    return { ...common(defaults), id: defaults.newId(), payload: text.trim() };
  }
  for (const name of Object.keys(value))
    if (!(MEMBERS as readonly string[]).includes(name))
      throw invalid(
        `a request has no member ${JSON.stringify(name.slice(0, 100))}; the members are ${MEMBERS.join(", ")}${didYouMean(name, MEMBERS)}`,
      );
  const { start, end } = memberRanges(text).get("payload")!;
  return {
    ...common(defaults),
    id: textOf(value, "id") || defaults.newId(),
    deadline: deadlineOf(value["deadline"], defaults),
    payload: text.slice(start, end),
    metadata: mapOf(value, "metadata", defaults.metadata),
    headers: mapOf(value, "headers", defaults.headers),
    labels: mapOf(value, "labels", defaults.labels),
    ...(textOf(value, "endpoint") === "" ? {} : { endpoint: textOf(value, "endpoint") }),
    requestQueueName: textOf(value, "request_queue_name") || defaults.requestQueueName,
    resultQueueName: textOf(value, "result_queue_name") || defaults.resultQueueName,
  };
}

function common({ newId, now, endpoint, ...rest }: RequestDefaults): Omit<SubmitRequest, "id" | "payload"> {
  return { ...rest, ...(endpoint === undefined ? {} : { endpoint }) };
}

/** A request with a misspelt payload, or with one that is no object, must not go out as a payload. */
function refuseNearRequest(value: Readonly<Record<string, unknown>>): void {
  if (!("id" in value) && !("deadline" in value) && !("payload" in value)) return;
  if ("payload" in value) throw invalid("payload must be an object");
  const meant = Object.keys(value).find((name) => nearest(name, ["payload"]) !== undefined);
  if (meant !== undefined) throw invalid(`a request has no member ${JSON.stringify(meant)}; did you mean \`payload\`?`);
  if ("id" in value && "deadline" in value) throw invalid("payload is missing: give the body to send, an object");
}

function textOf(value: Readonly<Record<string, unknown>>, name: string): string {
  const member = value[name] ?? "";
  if (typeof member !== "string") throw invalid(`${name} must be a string`);
  return member;
}

function deadlineOf(value: unknown, { deadline, now }: RequestDefaults): number {
  if (value === undefined || value === null) return deadline;
  if (!Number.isSafeInteger(value) || (value as number) <= 0)
    throw invalid(
      `deadline must be a positive whole number of Unix seconds, not ${JSON.stringify(value)?.slice(0, 100)}`,
    );
  const seconds = value as number;
  if (seconds > LATEST)
    throw invalid(`deadline ${seconds} is thousands of years ahead: give seconds, not milliseconds`);
  if (seconds <= now) throw invalid(`deadline ${seconds} (${new Date(seconds * 1000).toISOString()}) has passed`);
  return seconds;
}

/** The members of both; a member of the request wins. */
function mapOf(
  value: Readonly<Record<string, unknown>>,
  name: string,
  defaults: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const member = value[name] ?? {};
  if (!isObject(member)) throw invalid(`${name} must be an object of strings`);
  for (const [key, entry] of Object.entries(member))
    if (typeof entry !== "string") throw invalid(`${name}.${key} must be a string`);
  return { ...defaults, ...(member as Record<string, string>) };
}

function invalid(problem: string): SluiceError {
  return new SluiceError("REQUEST_INVALID", problem);
}

/** Bytes of the longest request: the largest body that gateways take, and the rest of the request. */
export const LONGEST_REQUEST = 33 * 1024 * 1024;

/** Most requests, and bytes of them, of one portion. */
const STEP = 100;
const STEP_SIZE = 4 * 1024 * 1024;

/**
 * The requests of a file of JSON lines, in portions that fit one submission. Empty lines are skipped.
 * @throws SluiceError REQUEST_INVALID with the line, after the portion of the requests before it
 */
export async function* requestPortions(
  source: AsyncIterable<Buffer>,
  defaults: RequestDefaults,
): AsyncGenerator<readonly SubmitRequest[]> {
  let portion: SubmitRequest[] = [];
  let size = 0;
  let problem: SluiceError | undefined;
  for await (const line of linesOf(source)) {
    try {
      const text = trimmedText(line);
      if (text === "") continue;
      portion.push(readRequestText(text, defaults));
      size += text.length;
    } catch (error) {
      problem = new SluiceError("REQUEST_INVALID", `line ${line.number}: ${messageOf(error)}`);
      break;
    }
    if (portion.length < STEP && size < STEP_SIZE) continue;
    yield portion;
    portion = [];
    size = 0;
  }
  if (portion.length > 0) yield portion;
  if (problem !== undefined) throw problem;
}

async function* linesOf(source: AsyncIterable<Buffer>): AsyncGenerator<TextLine> {
  const splitter = new LineSplitter(LONGEST_REQUEST);
  for await (const chunk of source) yield* splitter.push(chunk);
  yield* splitter.end();
}

function trimmedText({ bytes }: TextLine): string {
  if (bytes === undefined)
    throw new SluiceError("REQUEST_INVALID", `the line is longer than ${LONGEST_REQUEST / 1024 / 1024} MiB`);
  const text = lineText(bytes);
  if (text === undefined) throw new SluiceError("REQUEST_INVALID", "the line is not UTF-8");
  return text.trim();
}
