import { isObject } from "../../../base/document/json-object.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import { memberRanges } from "./json-members.ts";
import type { QueuedRequest } from "./message.ts";

/** An entry of a queue that is no message. Its readable parts identify its owner. */
export class UnreadableMessage extends SluiceError {
  /** Empty when it could not be found. */
  readonly id: string;
  readonly resultQueueName: string;

  constructor(problem: string, known: { readonly id?: string; readonly resultQueueName?: string } = {}) {
    super("MESSAGE_UNREADABLE", problem);
    this.id = known.id ?? "";
    this.resultQueueName = known.resultQueueName ?? "";
  }
}

/** @throws UnreadableMessage when `text` is not a JSON object */
export function parseObject(text: string, what: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    // V8 quotes the unreadable text. Reasons go to logs and metrics, which must contain no prompt.
    const at = / at position \d+/.exec(messageOf(error))?.[0] ?? "";
    throw new UnreadableMessage(`${what} is not JSON${at === "" ? "" : `: it ends early or has an error${at}`}`);
  }
  if (!isObject(value)) throw new UnreadableMessage(`${what} is not a JSON object`);
  return value;
}

/**
 * Reads a request; unknown members are ignored, and null counts as absent. Source: async-processor 4.1.
 * @param text its JSON text
 * @param value the parsed `text`
 * @throws UnreadableMessage for a member of the wrong type
 */
export function readRequest(text: string, value: Readonly<Record<string, unknown>>): QueuedRequest {
  const id = textField(value, "id", "");
  const payload = value["payload"];
  if (payload !== undefined && payload !== null && !isObject(payload))
    throw new UnreadableMessage("payload is not a JSON object", { id });
  const range = isObject(payload) ? memberRanges(text).get("payload") : undefined;
  return {
    id,
    created: integerMember(value, "created", id, Number.NaN),
    deadline: integerMember(value, "deadline", id, 0),
    payload: range === undefined ? undefined : Buffer.from(text.slice(range.start, range.end)),
    metadata: textMap(value, "metadata", id),
    headers: textMap(value, "headers", id),
    endpoint: textField(value, "endpoint", id),
  };
}

/** @throws UnreadableMessage unless the member is absent, null or a text */
export function textField(value: Readonly<Record<string, unknown>>, name: string, id: string): string {
  const member = value[name] ?? "";
  if (typeof member !== "string") throw new UnreadableMessage(`${name} is not a string`, { id });
  return member;
}

/** @throws UnreadableMessage unless the member is absent, null or a whole number of 64 bits */
export function integerMember(
  value: Readonly<Record<string, unknown>>,
  name: string,
  id: string,
  missing: number,
): number {
  const member = value[name] ?? missing;
  const whole = Number.isInteger(member) && Math.abs(member as number) <= 2 ** 63;
  if (typeof member !== "number" || !(whole || Number.isNaN(missing)))
    throw new UnreadableMessage(`${name} is not a whole number`, { id });
  return member;
}

/** @throws UnreadableMessage unless the member is absent, null or an object of texts */
export function textMap(
  value: Readonly<Record<string, unknown>>,
  name: string,
  id: string,
): Readonly<Record<string, string>> {
  const member = value[name] ?? {};
  if (!isObject(member)) throw new UnreadableMessage(`${name} is not a JSON object`, { id });
  for (const [key, entry] of Object.entries(member))
    if (typeof entry !== "string") throw new UnreadableMessage(`${name}.${key.slice(0, 100)} is not a string`, { id });
  return member as Record<string, string>;
}
