import { createHash } from "node:crypto";
import type { Clock } from "../../base/clock/clock.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { ApiClient } from "./api-client.ts";
import { ApiError } from "./api-error.ts";

/** Milliseconds for which a cached answer counts. */
const YES_COUNTS = 60_000;
const NO_COUNTS = 10_000;
const MAX_ANSWERS = 1000;
/** Most questions under way at a time. A further caller gets an error, so that a flood here is none for the API server. */
const MAX_ASKED = 64;
/** Milliseconds for one review: a scraper waits for it. */
const TIMEOUT = 5_000;
/** Most characters of a token; service account tokens have about 1,200. */
const MAX_TOKEN = 16_384;

/** The owner of a token, as the API server names it. */
export interface ReviewedUser {
  readonly username: string;
  readonly uid?: string | undefined;
  readonly groups?: readonly string[] | undefined;
  readonly extra?: Readonly<Record<string, readonly string[]>> | undefined;
}

interface Answer<V> {
  readonly value: V;
  readonly yes: boolean;
}

/**
 * Asks the API server which user a token belongs to and what the user may do (epp-protocol 15.3). Answers are kept, yes for 60
 * s and no for 10 s, at most 1,000 of each kind, under hashes of the questions. Without an answer it throws, and access is
 * refused.
 */
export class AccessReview {
  readonly #api: ApiClient;
  readonly #clock: Clock;
  readonly #users = new ExpiringMap<{ readonly user: ReviewedUser | undefined }>(MAX_ANSWERS);
  readonly #rights = new ExpiringMap<boolean>(MAX_ANSWERS);
  /** Questions under way, so that the same one is not asked twice. */
  readonly #asked = new Map<string, Promise<unknown>>();

  constructor({ api, clock }: { readonly api: ApiClient; readonly clock: Clock }) {
    this.#api = api;
    this.#clock = clock;
  }

  /**
   * The user of a bearer token; undefined when the token is not valid.
   * @throws ApiError when the API server gives no answer; SluiceError ACCESS_REVIEW_BUSY when too many questions are under way
   */
  async authenticate(token: string): Promise<ReviewedUser | undefined> {
    if (token === "" || token.length > MAX_TOKEN) return undefined;
    const { user } = await this.#answer(this.#users, hash("token", token), async () => {
      const status = await this.#review("/apis/authentication.k8s.io/v1/tokenreviews", {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenReview",
        spec: { token },
      });
      const found = status["authenticated"] === true ? readUser(status["user"]) : undefined;
      return { value: { user: found }, yes: found !== undefined };
    });
    return user;
  }

  /**
   * Whether a user may do something to a path that is no API object.
   * @param verb lower case, such as `get`
   * @param path such as `/metrics`
   * @throws as `authenticate`
   */
  authorize({ username, uid, groups, extra }: ReviewedUser, verb: string, path: string): Promise<boolean> {
    const spec = { user: username, uid, groups, extra, nonResourceAttributes: { path, verb } };
    return this.#answer(this.#rights, hash("right", JSON.stringify(spec)), async () => {
      const status = await this.#review("/apis/authorization.k8s.io/v1/subjectaccessreviews", {
        apiVersion: "authorization.k8s.io/v1",
        kind: "SubjectAccessReview",
        spec,
      });
      const yes = status["allowed"] === true && status["denied"] !== true;
      return { value: yes, yes };
    });
  }

  async #answer<V>(kept: ExpiringMap<V>, key: string, ask: () => Promise<Answer<V>>): Promise<V> {
    const known = kept.get(key, this.#clock.now());
    if (known !== undefined) return known;
    let asked = this.#asked.get(key) as Promise<V> | undefined;
    if (asked === undefined) {
      if (this.#asked.size >= MAX_ASKED)
        throw new SluiceError(
          "ACCESS_REVIEW_BUSY",
          `Sluice already checks ${MAX_ASKED} callers, the limit; try again later`,
        );
      asked = ask()
        .then(({ value, yes }) => {
          kept.set(key, value, this.#clock.now() + (yes ? YES_COUNTS : NO_COUNTS));
          return value;
        })
        .finally(() => this.#asked.delete(key));
      this.#asked.set(key, asked);
    }
    return asked;
  }

  async #review(path: string, body: unknown): Promise<Record<string, unknown>> {
    const answer = (await this.#api.request({ method: "POST", path, body, timeout: TIMEOUT })) as {
      readonly status?: unknown;
    } | null;
    if (typeof answer?.status === "object" && answer.status !== null) return answer.status as Record<string, unknown>;
    throw new ApiError(`${this.#api.server} answered POST ${path} without a status`, { status: 0, reason: "" });
  }
}

/** Tokens are never kept in clear. */
function hash(kind: string, text: string): string {
  return createHash("sha256").update(`${kind} ${text}`).digest("base64");
}

function readUser(value: unknown): ReviewedUser | undefined {
  const { username, uid, groups, extra } = (value ?? {}) as Record<string, unknown>;
  if (typeof username !== "string" || username === "") return undefined;
  return {
    username,
    uid: typeof uid === "string" ? uid : undefined,
    groups: Array.isArray(groups) ? groups.filter((group) => typeof group === "string") : undefined,
    extra: (extra ?? undefined) as ReviewedUser["extra"],
  };
}

interface Entry<V> {
  readonly value: V;
  /** Monotonic milliseconds. */
  readonly until: number;
}

/** Values that count for a limited time. Beyond so many keys the least recently used ones are dropped. */
export class ExpiringMap<V> {
  readonly #maxKeys: number;
  /** In the order of their last use. */
  readonly #entries = new Map<string, Entry<V>>();

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Undefined for a value that is not kept or has expired. @param now monotonic milliseconds */
  get(key: string, now: number): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    if (now >= entry.until) return undefined;
    this.#entries.set(key, entry);
    return entry.value;
  }

  set(key: string, value: V, until: number): void {
    this.#entries.delete(key);
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size < this.#maxKeys) break;
      this.#entries.delete(oldest);
    }
    this.#entries.set(key, { value, until });
  }
}
