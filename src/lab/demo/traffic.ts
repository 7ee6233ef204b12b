import type { Dispatcher } from "undici";
import { type Clock, delay } from "../../base/clock/clock.ts";
import { SeededRandom } from "../../base/clock/random.ts";

/** One request of the demo's list. */
export interface DemoRequest {
  readonly number: number;
  /** Milliseconds after the start of the half. */
  readonly at: number;
  /** Index of the shared prefix at its start. */
  readonly prefix: number;
  readonly system: string;
  readonly question: string;
  readonly maxTokens: number;
}

interface WorkloadOptions {
  readonly seed: number;
  readonly durationMs: number;
  readonly ratePerSecond: number;
}

/** Requests per second and server: they occupy a third of the server's slots. */
export const RATE_PER_SERVER = 8;
/** Milliseconds at the end of a half without new requests, so that no request is in flight at the end. */
const TAIL_MS = 1200;

/** The list of one half of the demo. @param halfMs length of the half */
export function demoWorkload(seed: number, halfMs: number, servers: number): DemoRequest[] {
  return makeWorkload({ seed, durationMs: halfMs - TAIL_MS, ratePerSecond: RATE_PER_SERVER * servers });
}

/** Shared prefixes, and tokens of each: all fit the caches of three servers of 768 blocks of 16, but not of one. */
export const PREFIXES = 12;
export const PREFIX_TOKENS = 2048;

const CONSONANTS = "bdfghklmnprstvz";
const VOWELS = "aeiou";

/** Words of three letters: with the space four bytes to a token. The prefix index assumes the same size. */
export function words(random: SeededRandom, count: number): string {
  let text = "";
  for (let i = 0; i < count; i++) {
    if (i > 0) text += " ";
    text += CONSONANTS[random.below(15)]! + VOWELS[random.below(5)]! + CONSONANTS[random.below(15)]!;
  }
  return text;
}

/** A seeded list of requests with Poisson arrivals: the same seed gives the same list, word for word. */
export function makeWorkload({ seed, durationMs, ratePerSecond }: WorkloadOptions): DemoRequest[] {
  const random = new SeededRandom(seed);
  const systems = Array.from({ length: PREFIXES }, () => words(random, PREFIX_TOKENS));
  const list: DemoRequest[] = [];
  let at = 0;
  for (let number = 0; ; number++) {
    at += (-Math.log(1 - random.next()) * 1000) / ratePerSecond;
    if (at >= durationMs) return list;
    const prefix = random.below(PREFIXES);
    list.push({
      number,
      at,
      prefix,
      system: systems[prefix]!,
      question: words(random, 16 + random.below(33)),
      maxTokens: 24 + random.below(41),
    });
  }
}

/** Receives the events of every request. */
interface TrafficObserver {
  sent?(): void;
  ended(outcome: RequestOutcome): void;
}

/**
 * Sends every request of a list at its time, whether or not earlier ones were answered. Resolves after the last answer. An
 * abort stops the sending, but not the requests in flight.
 */
export async function runTraffic(
  client: Dispatcher,
  clock: Clock,
  list: readonly DemoRequest[],
  signal: AbortSignal,
  observer: TrafficObserver,
): Promise<void> {
  const begin = clock.now();
  const answers = new Set<Promise<void>>();
  for (const request of list) {
    const wait = begin + request.at - clock.now();
    if (wait > 0) await delay(clock, wait, signal).catch(() => undefined);
    if (signal.aborted) break;
    observer.sent?.();
    const answer = send(client, request, clock).then((outcome) => {
      answers.delete(answer);
      observer.ended(outcome);
    });
    answers.add(answer);
  }
  await Promise.all(answers);
}

/** The result of one request, as its client saw it. */
export interface RequestOutcome {
  /** `interrupted`: the answer broke off after its start. */
  readonly kind: "completed" | "failed" | "interrupted";
  /** Milliseconds from the send to the first token; NaN without one. */
  readonly ttftMs: number;
  readonly outputTokens: number;
  /** The problem, for people. */
  readonly detail: string;
}

/** Milliseconds without a byte after which an answer counts as failed. */
export const ANSWER_LIMIT_MS = 15_000;

/** The problem between the demo and the gateway, for people who know none of the libraries. */
function reasonOf(error: unknown): string {
  const { code, message } = error as { readonly code?: string; readonly message?: string };
  switch (code) {
    case "UND_ERR_HEADERS_TIMEOUT":
      return `no answer began within ${ANSWER_LIMIT_MS / 1000} s`;
    case "UND_ERR_BODY_TIMEOUT":
      return `the answer sent nothing for ${ANSWER_LIMIT_MS / 1000} s`;
    case "UND_ERR_CONNECT_TIMEOUT":
      return "the gateway accepted no connection in time";
    case "UND_ERR_SOCKET":
    case "ECONNRESET":
      return "the gateway ended the connection before its answer";
    default:
      return message ?? String(error);
  }
}

/** Sends one streaming chat request and reads its answer to the end; never throws. */
export async function send(client: Dispatcher, request: DemoRequest, clock: Clock): Promise<RequestOutcome> {
  const started = clock.now();
  let ttftMs = Number.NaN;
  let outputTokens = 0;
  const outcome = (kind: RequestOutcome["kind"], detail = ""): RequestOutcome => ({
    kind,
    ttftMs,
    outputTokens,
    detail,
  });
  try {
    const response = await client.request({
      method: "POST",
      path: "/v1/chat/completions",
      headers: { "content-type": "application/json", "x-request-id": `demo-${request.number}` },
      body: JSON.stringify({
        model: "sim",
        stream: true,
        // The page shows the tokens that the servers report.
        stream_options: { include_usage: true },
        max_tokens: request.maxTokens,
        ignore_eos: true,
        messages: [
          { role: "system", content: request.system },
          { role: "user", content: request.question },
        ],
      }),
    });
    if (response.statusCode !== 200) {
      const text = await response.body.text();
      return outcome("failed", `${response.statusCode} ${text.slice(0, 200)}`);
    }
    let tail = "";
    let done = false;
    let error = "";
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      tail += chunk.toString("latin1");
      for (;;) {
        const end = tail.indexOf("\n\n");
        if (end < 0) break;
        const event = tail.slice(0, end);
        tail = tail.slice(end + 2);
        if (event === "data: [DONE]") done = true;
        else if (event.startsWith('data: {"error"')) error = event;
        // The first event names the role and the last one the reason for the end: only the others carry a token.
        else if (/"content":"[^"]/.test(event)) {
          if (outputTokens === 0) ttftMs = clock.now() - started;
          outputTokens++;
        }
      }
    }
    return done && error === "" ? outcome("completed") : outcome("interrupted", error || "ended without [DONE]");
  } catch (error) {
    return outcome(Number.isNaN(ttftMs) ? "failed" : "interrupted", reasonOf(error));
  }
}
