import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { realClock } from "../../base/clock/real.ts";
import { lineText } from "../../base/document/line-splitter.ts";
import { unreadable } from "../../base/document/read.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { Producer, SubmitRequest } from "../brokers/queue-client.ts";
import { print } from "./print.ts";
import { openQueueStore, type QueueStoreLocation } from "./queue-store.ts";
import { LONGEST_REQUEST, type RequestDefaults, readRequestText, requestPortions } from "./request-lines.ts";

/** The deadline of requests: a time from now, or a moment. */
export type DeadlineChoice =
  | { readonly kind: "in"; readonly ms: number }
  /** Unix seconds, and the text of the user. */
  | { readonly kind: "at"; readonly seconds: number; readonly text: string };

/** The fields of requests besides the payload. */
export interface RequestChoices {
  readonly deadline: DeadlineChoice;
  readonly metadata: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
}

export interface EnqueueOptions extends RequestChoices {
  readonly place: QueueStoreLocation;
  readonly queue: string | undefined;
  readonly resultQueue: string | undefined;
  readonly endpoint: string | undefined;
  readonly id: string | undefined;
  /** A file, `-`, or JSON; undefined = standard input. */
  readonly input: string | undefined;
  /** The input has one request per line. */
  readonly lines: boolean;
}

/**
 * Puts requests on a queue and prints their ids, one per line.
 * @throws SluiceError REQUEST_INVALID, QUEUE_UNKNOWN, BROKER_UNAVAILABLE, FLAG_VALUE, FLAG_MISSING, ENQUEUE_INPUT
 */
export async function runEnqueue(options: EnqueueOptions): Promise<void> {
  const deadline = deadlineSeconds(options.deadline);
  const place = await openQueueStore(options.place, true);
  try {
    const queue = await place.requestQueue(options.queue);
    const resultQueueName = options.resultQueue ?? queue.resultQueueName;
    if (queue.resultsFixed && resultQueueName !== queue.resultQueueName)
      throw new SluiceError(
        "FLAG_VALUE",
        `--result-queue ${resultQueueName}: queue ${queue.name} sends all its results to ${queue.resultQueueName} (result_queue_name)`,
      );
    const { metadata, headers, labels, endpoint, id } = options;
    const defaults = {
      ...{ deadline, metadata, headers, labels, endpoint, resultQueueName, now: realClock.wall() / 1000 },
      requestQueueName: queue.name,
      newId: () => id ?? randomUUID(),
    };
    const producer = await place.client.producer(queue.name, resultQueueName);
    try {
      if (options.lines) await enqueueLines(options.input, defaults, producer);
      else await enqueueOne(options.input, defaults, producer);
    } finally {
      await producer.close();
    }
  } finally {
    place.close();
  }
}

/** The deadline in Unix seconds. @throws SluiceError FLAG_VALUE when it has passed */
export function deadlineSeconds(choice: DeadlineChoice): number {
  const now = realClock.wall();
  if (choice.kind === "in") return Math.ceil((now + choice.ms) / 1000);
  if (choice.seconds * 1000 > now) return choice.seconds;
  throw new SluiceError(
    "FLAG_VALUE",
    `--deadline-at ${choice.text} has passed: the time is now ${new Date(now).toISOString()}`,
  );
}

async function enqueueOne(input: string | undefined, defaults: RequestDefaults, producer: Producer): Promise<void> {
  const text = input?.trimStart().startsWith("{") ? input : await readAll(input);
  let request: SubmitRequest;
  try {
    request = readRequestText(text, defaults);
  } catch (error) {
    const hint = /\}\s*\n\s*\{/.test(text) ? "; to read one request per line, add --lines" : "";
    throw new SluiceError("REQUEST_INVALID", `${nameOf(input)}: ${messageOf(error)}${hint}`);
  }
  await producer.submitRequest(request);
  await print(`${request.id}\n`);
}

async function enqueueLines(input: string | undefined, defaults: RequestDefaults, producer: Producer): Promise<void> {
  // A file is read once before the submission, so that either all requests are submitted or none.
  const checked = input !== undefined && input !== "-" && (await stat(input).catch(() => undefined))?.isFile();
  let submitted = 0;
  try {
    if (checked) for await (const _ of requestPortions(open(input), defaults)) void _;
    for await (const portion of requestPortions(open(input), defaults)) {
      await producer.submitRequests(portion);
      submitted += portion.length;
      await print(portion.map(({ id }) => `${id}\n`).join(""));
    }
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    const count = submitted === 1 ? "the first request was" : `the first ${submitted} requests were`;
    const before = submitted === 0 ? "no request was submitted" : `${count} submitted`;
    const unsure = error.code === "BROKER_UNAVAILABLE" ? ", and the next requests may have been submitted, too" : "";
    throw new SluiceError(error.code, `${nameOf(input)}: ${error.message}; ${before}${unsure}`);
  }
}

async function readAll(input: string | undefined): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of open(input)) {
    length += chunk.length;
    if (length > LONGEST_REQUEST)
      throw new SluiceError(
        "REQUEST_INVALID",
        `${nameOf(input)} is longer than ${LONGEST_REQUEST / 1024 / 1024} MiB; to read one request per line, add --lines`,
      );
    chunks.push(chunk);
  }
  const text = lineText(Buffer.concat(chunks));
  if (text === undefined) throw new SluiceError("REQUEST_INVALID", `${nameOf(input)} is not UTF-8`);
  if (text.trim() === "") throw new SluiceError("REQUEST_INVALID", `${nameOf(input)} is empty; give a JSON object`);
  return text;
}

async function* open(input: string | undefined): AsyncGenerator<Buffer> {
  if (input === undefined && process.stdin.isTTY)
    throw new SluiceError("FLAG_MISSING", "the input is missing: give a file, - for standard input, or a JSON object");
  try {
    yield* (input === undefined || input === "-" ? process.stdin : createReadStream(input)) as AsyncIterable<Buffer>;
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    throw new SluiceError(
      "ENQUEUE_INPUT",
      `${unreadable(nameOf(input), cause).message}; give a file, - for standard input, or a JSON object`,
      { cause },
    );
  }
}

function nameOf(input: string | undefined): string {
  if (input === undefined || input === "-") return "standard input";
  return input.trimStart().startsWith("{") ? "the given JSON" : input.slice(0, 200);
}
