import type { AccessEntry } from "./access-entry.ts";
import { type Counted, Counts } from "./replay-result.ts";

/** Requests that are kept of logs. */
const MAX_REQUESTS = 100_000;
/** Different reasons for leaving entries out that are told apart. */
const MAX_REASONS = 20;

/** Ends of paths whose answers are generated token by token. */
const GENERATING = ["/completions", "/messages", "/responses", "/generate"];
/** Ends of paths whose answers cost no more than the prompt. */
const READING = ["/embeddings"];

/** A request that is played again. */
export interface RecordedRequest extends AccessEntry {
  /** Wall-clock milliseconds of its arrival. */
  readonly at: number;
  /** Whether its answer was generated token by token. */
  readonly generates: boolean;
}

/** Gathers from an access log what is worth playing again: inference requests that were answered. */
export class AccessLog {
  readonly #most: number;
  readonly #requests: RecordedRequest[] = [];
  readonly #skipped = new Counts(MAX_REASONS);
  #beyond = 0;

  /** @param most requests that are kept, >= 1 */
  constructor(most = MAX_REQUESTS) {
    this.#most = most;
  }

  add(entry: AccessEntry): void {
    const reason = whyNot(entry);
    if (reason !== undefined) this.#skipped.add(reason);
    else if (this.#requests.length >= this.#most) this.#beyond++;
    // Entries are written when answers end: the order of arrivals is another one.
    else this.#requests.push({ ...entry, at: arrivalOf(entry), generates: isAt(entry.path, GENERATING) });
  }

  /** In the order in which they arrived. */
  get requests(): readonly RecordedRequest[] {
    return [...this.#requests].sort((a, b) => a.at - b.at);
  }

  /** Usable ones that are not among the requests because there are too many. */
  get beyond(): number {
    return this.#beyond;
  }

  /** What was left out, and why. */
  get skipped(): readonly Counted[] {
    return this.#skipped.list("other requests that are no inference");
  }
}

function whyNot({ method, path, status }: AccessEntry): string | undefined {
  if (method !== "POST") return `${method} requests`;
  if (!isAt(path, GENERATING) && !isAt(path, READING)) return `POST ${path}, which is no inference path`;
  if (status === undefined || (status >= 200 && status < 300)) return undefined;
  return status < 100 ? "without an answer" : `answered with ${status}`;
}

function isAt(path: string, ends: readonly string[]): boolean {
  const bare = path.endsWith("/") ? path.slice(0, -1) : path;
  return ends.some((end) => bare.endsWith(end));
}

function arrivalOf({ start, end, durationMs = 0 }: AccessEntry): number {
  return start ?? end! - durationMs;
}
