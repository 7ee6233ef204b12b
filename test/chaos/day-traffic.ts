import type { TlsPair } from "../../src/base/grpc/tls.ts";
import { chat, JSON_HEADERS } from "../support/client.ts";
import { poll } from "../support/poll.ts";
import { type DayClient, Http1Client, Http2Client, type Leaving, type Reply } from "./day-client.ts";
import type { Outcome } from "./day-verdict.ts";

/** Requests of a client on one connection. */
const PER_CONNECTION = 25;
/** Milliseconds that a client waits after a refusal. */
const AFTER_REFUSAL = 25;
/** Bytes of a large prompt: above what counts as a small body. */
const LARGE = 120_000;

/** Who sends. */
export interface Caller {
  readonly name: string;
  /** The key in use now; undefined = does not send yet. */
  key(): string | undefined;
  readonly models: readonly string[];
  /** Clients at each of the gateways. */
  readonly clients: readonly number[];
  /** Sends nothing but short requests: its limits are what matters. */
  readonly short: boolean;
}

/** What clients connect with; the day changes it. */
export interface Wardrobe {
  ca: readonly string[];
  client: TlsPair;
}

interface Kind {
  readonly name: string;
  readonly stream: boolean;
  readonly leaving: Leaving;
  readonly tokens: number;
  readonly words: number;
  readonly models?: boolean;
}

const PLAIN: Kind = { name: "chat", stream: false, leaving: "never", tokens: 4, words: 1 };
const STREAM: Kind = { ...PLAIN, name: "stream", stream: true, tokens: 12 };
const LIST: Kind = { ...PLAIN, name: "models", models: true };
/** The kinds in turn. */
const MIX: readonly Kind[] = [
  ...[PLAIN, STREAM, PLAIN, STREAM, LIST],
  { ...PLAIN, name: "large", words: LARGE / 5 },
  ...[PLAIN, STREAM, { ...STREAM, name: "long stream", tokens: 200 }, PLAIN],
  { ...STREAM, name: "hang-up", leaving: "in the answer", tokens: 80 },
  ...[STREAM, PLAIN],
  { ...PLAIN, name: "broken upload", leaving: "in the upload", words: LARGE / 5 },
];

/** Mixed traffic of all callers, until it is told to stop. What became of each request goes to `tell`. */
export class DayTraffic {
  sent = 0;
  /** Ids of requests that a gateway answered, by gateway: each has to be in its log. */
  readonly answered: Set<string>[] = [];
  readonly #ports: readonly number[];
  readonly #wardrobe: Wardrobe;
  readonly #tell: (outcome: Outcome, usage: number) => void;
  readonly #strands: Promise<void>[] = [];
  readonly #over: number[] = [];
  #stopped = false;

  constructor(
    ports: readonly number[],
    callers: readonly Caller[],
    wardrobe: Wardrobe,
    tell: (outcome: Outcome, usage: number) => void,
  ) {
    this.#ports = ports;
    this.#wardrobe = wardrobe;
    this.#tell = tell;
    for (const _ of ports) this.answered.push(new Set());
    for (const caller of callers)
      for (const [gateway, count] of caller.clients.entries())
        for (let n = 0; n < count; n++) this.#strands.push(this.#strand(caller, gateway, this.#over.push(0) - 1));
  }

  /** Waits until each client that sends has learnt what became of so many further requests. */
  async round(requests = 1): Promise<void> {
    const before = [...this.#over];
    await poll("each client to get on", () =>
      this.#over.every((over, strand) => over < 0 || over >= before[strand]! + requests),
    );
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#strands);
  }

  async #strand(caller: Caller, gateway: number, strand: number): Promise<void> {
    let client: DayClient | undefined;
    for (let n = strand; !this.#stopped; n++) {
      const key = caller.key();
      if (key === undefined) {
        this.#over[strand] = -1;
        await new Promise((resolve) => setTimeout(resolve, AFTER_REFUSAL));
        continue;
      }
      if (client === undefined || client.ended || n % PER_CONNECTION === 0) {
        client?.close();
        const trust = { port: this.#ports[gateway]!, ...this.#wardrobe };
        client = strand % 2 === 0 ? new Http1Client(trust) : new Http2Client(trust);
      }
      const good = await this.#one(client, caller, key, gateway, n);
      this.#over[strand] = Math.max(0, this.#over[strand]!) + 1;
      if (!good) await new Promise((resolve) => setTimeout(resolve, AFTER_REFUSAL));
    }
    client?.close();
  }

  async #one(client: DayClient, caller: Caller, key: string, gateway: number, n: number): Promise<boolean> {
    const kind = caller.short ? (n % 3 === 0 ? STREAM : PLAIN) : MIX[n % MIX.length]!;
    const model = caller.models[n % caller.models.length]!;
    const id = `day-${this.sent++}`;
    const start = Date.now();
    const reply = await client.ask({
      method: kind.models ? "GET" : "POST",
      path: kind.models ? "/v1/models" : "/v1/chat/completions",
      headers: { ...JSON_HEADERS, authorization: `Bearer ${key}`, "x-request-id": id },
      ...(kind.models ? {} : { body: bodyOf(kind, model, n) }),
      leaving: kind.leaving,
    });
    const { status, headers, text } = reply;
    // A list that the gateway makes itself has no line. Refusals of keys are told once in a second only. Of an upload that breaks off a gateway may have seen nothing.
    if (!kind.models && status !== 0 && status !== 401) this.answered[gateway]!.add(id);
    const what = { caller: caller.name, model, kind: kind.name, stream: kind.stream };
    const problem = problemOf(reply, kind, model);
    const times = { start, end: Date.now() };
    this.#tell({ ...what, ...times, status, headers, problem, text: text.slice(-600) }, usageIn(text));
    return (status === 200 || status === 0) && problem === "";
  }
}

function bodyOf(kind: Kind, model: string, n: number): string {
  const options = kind.stream ? { stream_options: { include_usage: true } } : {};
  const text = kind.words === 1 ? `question ${n % 1000}` : `${n % 1000} ${"long ".repeat(kind.words)}`;
  return chat(text, { model, max_tokens: kind.tokens, stream: kind.stream, ...options });
}

/** What is wrong with an answer 200; "" = nothing. */
function problemOf(reply: Reply, kind: Kind, model: string): string {
  if (kind.leaving === "in the upload" && reply.status === 0) return "";
  if (reply.status !== 200) return `status ${reply.status} ${reply.problem}`;
  if (kind.leaving === "in the answer" && reply.text !== "") return reply.text.includes('"error"') ? "an error" : "";
  if (!reply.whole) return reply.problem || "not whole";
  if (kind.models) return reply.text.includes(`"${model}"`) ? "" : `no ${model} in the list`;
  if (kind.stream && !reply.text.trimEnd().endsWith("data: [DONE]")) return "a stream without its end";
  if (!reply.text.includes(`"model":"${model}"`)) return `the answer is not of ${model}`;
  const written = /"completion_tokens":(\d+)/.exec(reply.text)?.[1];
  return Number(written) === kind.tokens ? "" : `${kind.tokens} tokens were asked for, ${written} came`;
}

function usageIn(text: string): number {
  return Number(/"total_tokens":(\d+)/.exec(text)?.[1] ?? 0);
}
