import { oneLine } from "../../base/inference/errors.ts";

/** How strongly the model server protocol asks for something. */
type Level = "MUST" | "SHOULD" | "MAY";

interface Obligation {
  /** The name for people. */
  readonly title: string;
  readonly level: Level;
  /** The heading in the model server protocol of the Gateway API Inference Extension. */
  readonly paragraph: string;
}

const API = "Inference API Protocol";
const METRICS = "Metrics Reporting";
const LORA = "LoRA Adapter Serving";
const PREFIX = "Prefix Cache Reuse";

/**
 * The obligations of a model server to an Endpoint Picker, in the order of the checks. The paragraph "Prefix Cache Reuse", the
 * running requests and the waiting adapters joined the protocol after its first version; api-resources 7 has all of them.
 */
const OBLIGATIONS = {
  models: { title: "model list", level: "SHOULD", paragraph: API },
  completions: { title: "completions", level: "MUST", paragraph: API },
  completionsUsage: { title: "token usage of completions", level: "SHOULD", paragraph: API },
  completionsStream: { title: "streamed completions", level: "MUST", paragraph: API },
  completionsStreamUsage: { title: "token usage of streamed completions", level: "SHOULD", paragraph: API },
  chat: { title: "chat completions", level: "MUST", paragraph: API },
  chatUsage: { title: "token usage of chat completions", level: "SHOULD", paragraph: API },
  chatStream: { title: "streamed chat completions", level: "MUST", paragraph: API },
  chatStreamUsage: { title: "token usage of streamed chat completions", level: "SHOULD", paragraph: API },
  unknownModel: { title: "unknown model", level: "SHOULD", paragraph: LORA },
  adapter: { title: "LoRA adapter by name", level: "MUST", paragraph: LORA },
  page: { title: "metrics page", level: "MUST", paragraph: METRICS },
  queued: { title: "TotalQueuedRequests", level: "MUST", paragraph: METRICS },
  running: { title: "TotalRunningRequests", level: "SHOULD", paragraph: METRICS },
  kvUsage: { title: "KVCacheUtilization", level: "MUST", paragraph: METRICS },
  lora: { title: "LoRA metrics", level: "MUST", paragraph: LORA },
  loraWaiting: { title: "waiting LoRA adapters", level: "SHOULD", paragraph: LORA },
  cacheConfig: { title: "size of the KV cache", level: "MAY", paragraph: PREFIX },
  prefixReuse: { title: "prefix cache", level: "SHOULD", paragraph: PREFIX },
} as const satisfies Record<string, Obligation>;

export type ObligationName = keyof typeof OBLIGATIONS;

/** `FAIL` = a MUST is broken; `warn` = any other problem; `skip` = not checked, with the reason. */
export type Result = "ok" | "warn" | "FAIL" | "skip";

/** The result of one obligation. One line each: texts of the server are cut and hold no secrets. */
export interface Verdict {
  readonly result: Result;
  readonly obligation: ObligationName;
  readonly title: string;
  readonly level: Level;
  readonly paragraph: string;
  readonly seen: string;
  /** The action that solves the problem; absent when there is no problem. */
  readonly remedy: string | undefined;
  /** A requested check was skipped, so the run proves nothing about this obligation. */
  readonly inconclusive: boolean;
}

/** The most problems in one line. */
const MAX_PROBLEMS = 3;
const MAX_SEEN = 400;

/** Gathers the problems of one obligation. */
export class Finding {
  readonly #obligation: ObligationName;
  readonly #problems: { readonly seen: string; readonly remedy: string; readonly broken: boolean }[] = [];

  constructor(obligation: ObligationName) {
    this.#obligation = obligation;
  }

  get flawless(): boolean {
    return this.#problems.length === 0;
  }

  /** The server does not meet the obligation. */
  broken(seen: string, remedy: string): void {
    this.#add(seen, remedy, true);
  }

  /** The server meets the obligation, but not well. */
  doubtful(seen: string, remedy: string): void {
    this.#add(seen, remedy, false);
  }

  /** @param seen the observation when there is no problem */
  verdict(seen: string): Verdict {
    const problems = this.#problems.slice(0, MAX_PROBLEMS);
    if (problems.length === 0) return verdictOf(this.#obligation, "ok", seen);
    const { level } = OBLIGATIONS[this.#obligation];
    const result = level === "MUST" && this.#problems.some(({ broken }) => broken) ? "FAIL" : "warn";
    const more = this.#problems.length - problems.length;
    return verdictOf(
      this.#obligation,
      result,
      problems.map((problem) => problem.seen).join("; ") + (more > 0 ? `; and ${more} more` : ""),
      [...new Set(problems.map(({ remedy }) => remedy))].join("; "),
    );
  }

  #add(seen: string, remedy: string, broken: boolean): void {
    // A problem that both readings of a page show counts once.
    if (!this.#problems.some((problem) => problem.seen === seen)) this.#problems.push({ seen, remedy, broken });
  }
}

/**
 * The verdict on an obligation that is not checked.
 * @param inconclusive the check was requested, but not possible
 */
export function skipped(
  obligation: ObligationName,
  why: string,
  { remedy, inconclusive = false }: { readonly remedy?: string; readonly inconclusive?: boolean } = {},
): Verdict {
  return verdictOf(obligation, "skip", why, remedy, inconclusive);
}

function verdictOf(
  obligation: ObligationName,
  result: Result,
  seen: string,
  remedy?: string,
  inconclusive = false,
): Verdict {
  return { result, obligation, ...OBLIGATIONS[obligation], seen: printable(seen), remedy, inconclusive };
}

/** One line without control characters, C1 included: it goes to a terminal, and the server writes parts of it. */
function printable(text: string): string {
  const flat = oneLine(text).replace(/[\u0080-\u009f\u2028\u2029]+/g, " ");
  return flat.length <= MAX_SEEN ? flat : `${flat.slice(0, MAX_SEEN - 3)}...`;
}
