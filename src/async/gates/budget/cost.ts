import { BytesPerToken, type LearnedBytesPerToken } from "../../../base/inference/bytes-per-token.ts";
import type { BudgetUnit } from "../../../base/plugin/gate.ts";

/** The highest cost of one request: sums stay exact for every number in a message (JSON has 1e400). */
const MOST_TOKENS = 2 ** 40;
/** Most bytes of a request or an answer that is read to learn from it. */
const MOST_READ = 1 << 20;
const PROMPT_FIELDS = ["prompt", "messages", "input", "text"] as const;
/** Types of content whose number of tokens does not depend on the bytes of their data or address. */
const MEDIA = /image|audio|video|file/;

type Json = Readonly<Record<string, unknown>>;

/**
 * The cost of requests (async-processor 2.3, rule 6). Bytes are those of the body. Tokens are those of the prompt's text, by
 * its decoded bytes, and of the longest answer that the request allows.
 *
 * The bytes per token are learned for each model from answers that state the tokens of their prompt
 * (docs/adr/0018-bytes-per-token.md); 4 is the first value. A request keeps the cost of its admission until it ends.
 */
export class RequestCosts {
  readonly #bytesPerToken = new BytesPerToken();
  /** For bodies that are still in use: each is read when it is admitted, when it leaves, and when its answer comes. */
  readonly #facts = new WeakMap<Uint8Array, Facts>();

  /** The cost of a request in a unit, > 0. @param body the bytes that are sent */
  of(body: Uint8Array | undefined, unit: BudgetUnit): number {
    if (unit === "requests" || body === undefined) return 1;
    if (unit === "bytes") return Math.max(1, body.byteLength);
    const { model, prompt, answer } = this.#factsOf(body);
    // No JSON object, which a transform may produce, or nested too deep to walk: all of it counts as text.
    const [text, output] = prompt === undefined ? [body.byteLength, 0] : [prompt.text, answer];
    return Math.min(MOST_TOKENS, Math.max(1, text / this.#bytesPerToken.of(model) + output));
  }

  /**
   * Learns from an answer with status 200. An answer without `usage.prompt_tokens` teaches nothing, nor does a prompt that
   * contains more than text.
   * @param body the request as it was sent
   * @param now monotonic milliseconds
   */
  learn(body: Uint8Array, answer: Uint8Array, now: number): void {
    if (body.byteLength > MOST_READ || answer.byteLength > MOST_READ) return;
    const { model, prompt } = this.#factsOf(body);
    if (model === "" || !this.#bytesPerToken.isDue(model) || prompt?.isText !== true) return;
    const usage = objectIn(answer)?.["usage"];
    if (typeof usage !== "object" || usage === null) return;
    this.#bytesPerToken.learn(model, prompt.text, numberOf((usage as Json)["prompt_tokens"]), now);
  }

  /** The learned values, by the model's name. */
  list(): LearnedBytesPerToken[] {
    return this.#bytesPerToken.list();
  }

  #factsOf(body: Uint8Array): Facts {
    let facts = this.#facts.get(body);
    if (facts === undefined) {
      facts = readFacts(body);
      this.#facts.set(body, facts);
    }
    return facts;
  }
}

/** The parts of a body that its cost depends on. */
interface Facts {
  /** "" where it names none. */
  readonly model: string;
  /** Undefined where the body is not a JSON object, or is nested too deep to walk. */
  readonly prompt: Prompt | undefined;
  /** Tokens of the longest answer that it allows; 0 where it states none. */
  readonly answer: number;
}

function readFacts(body: Uint8Array): Facts {
  const request = objectIn(body);
  if (request === undefined) return { model: "", prompt: undefined, answer: 0 };
  const { model } = request;
  return {
    model: typeof model === "string" ? model : "",
    prompt: promptOf(request),
    answer: Math.max(numberOf(request["max_tokens"]), numberOf(request["max_completion_tokens"])),
  };
}

/** Undefined where the bytes are no JSON object. */
function objectIn(bytes: Uint8Array): Json | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString());
    return typeof value === "object" && value !== null ? (value as Json) : undefined;
  } catch {
    return undefined;
  }
}

function numberOf(value: unknown): number {
  return typeof value === "number" && value > 0 ? value : 0;
}

interface Prompt {
  /** Bytes of all texts in it, at any depth. */
  readonly text: number;
  /** Whether its tokens are only those of the texts: no token ids, no media, no tools. */
  readonly isText: boolean;
}

/** Undefined where the prompt is nested too deep to walk. */
function promptOf(request: Json): Prompt | undefined {
  let text = 0;
  let isText = request["tools"] === undefined && request["functions"] === undefined;
  const walk = (value: unknown): void => {
    if (typeof value === "string") text += Buffer.byteLength(value);
    else if (typeof value === "number") isText = false;
    else if (typeof value === "object" && value !== null) {
      const type = (value as Json)["type"];
      if (typeof type === "string" && MEDIA.test(type)) isText = false;
      for (const part of Object.values(value)) walk(part);
    }
  };
  try {
    for (const field of PROMPT_FIELDS) walk(request[field]);
  } catch {
    return undefined;
  }
  return { text, isText };
}
