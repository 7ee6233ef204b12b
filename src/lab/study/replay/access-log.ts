import type { AccessEntry } from "./access-entry.ts";
import { type Counted, Counts } from "./replay-result.ts";

/** The most requests that are kept. */
const MAX_REQUESTS = 100_000;
/** The most reasons for skipped entries that are counted separately. */
const MAX_REASONS = 20;

/** Ends of paths whose answers are generated token by token. */
const GENERATING = ["/completions", "/messages", "/responses", "/generate"];
/** Ends of paths that cost only the computation of the prompt. */
const READING = ["/embeddings"];

/** A request to replay. */
export interface RecordedRequest extends AccessEntry {
  /** Wall-clock milliseconds of its arrival. */
  readonly at: number;
  /** Whether its answer was generated token by token. */
  readonly generates: boolean;
}

/** Gathers the requests of an access log to replay: answered inference requests. */
export class AccessLog {
  readonly #most: number;
  readonly #requests: RecordedRequest[] = [];
  readonly #skipped = new Counts(MAX_REASONS);
  #beyond = 0;

  /** @param most limit of kept requests, >= 1 */
  constructor(most = MAX_REQUESTS) {
    this.#most = most;
  }

  add(entry: AccessEntry): void {
    const reason = whyNot(entry);
    if (reason !== undefined) this.#skipped.add(reason);
    else if (this.#requests.length >= this.#most) this.#beyond++;
    // A log writes entries when answers end, so they are not in the order of arrival.
    else this.#requests.push({ ...entry, at: arrivalOf(entry), generates: isAt(entry.path, GENERATING) });
  }

  /** The requests in the order of their arrival. */
  get requests(): readonly RecordedRequest[] {
    return [...this.#requests].sort((a, b) => a.at - b.at);
  }

  /** Number of usable requests that were not kept because of the limit. */
  get beyond(): number {
    return this.#beyond;
  }

  /** The skipped entries, counted by reason. */
  get skipped(): readonly Counted[] {
    return this.#skipped.list("requests without inference");
  }
}

function whyNot({ method, path, status }: AccessEntry): string | undefined {
  if (method !== "POST") return `${method} requests`;
  if (!isAt(path, GENERATING) && !isAt(path, READING)) return `POST ${path}, which is not an inference path`;
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
