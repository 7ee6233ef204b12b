import { createLocalJWKSet, type JSONWebKeySet, type JWTVerifyGetKey } from "jose";
import type { Clock } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";

/** Milliseconds after which the keys are read again, while the old ones still count. */
const REFRESH = 600_000;
/** Milliseconds after which keys that cannot be read again count no more: by then, the issuer may have withdrawn one. */
const TOO_OLD = 24 * 3_600_000;
/** Milliseconds between two reads, whatever tokens come: unknown key ids must not become requests to the issuer. */
const COOL_DOWN = 30_000;
/** The same after a failure, and before the first keys. */
const COOL_DOWN_FAILED = 5_000;
/** Milliseconds between two log lines about a failure. */
const TOLD_EVERY = 60_000;
/** The most keys of an issuer. */
const MAX_SIGNING_KEYS = 256;

interface IssuerKeysOptions {
  /** For messages. */
  readonly place: string;
  /** Reads the text of the key set; rejects when it cannot. Bounds time and size itself. */
  readonly read: () => Promise<string>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The public keys of one issuer of tokens, read when needed and kept. */
export class IssuerKeys {
  readonly #options: IssuerKeysOptions;
  readonly #told: RateLimitedLog;
  #keys: JWTVerifyGetKey | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  #mayReadAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;
  #text = "";
  /** Changes with the key set: what an earlier one has verified counts no more. */
  revision = 0;

  constructor(options: IssuerKeysOptions) {
    this.#options = options;
    this.#told = new RateLimitedLog(options.log, options.clock, { intervalMs: TOLD_EVERY, maxKeys: 1 });
  }

  /** The keys; undefined when there are none and they cannot be read now. Old ones count while newer ones are read. */
  async current(): Promise<JWTVerifyGetKey | undefined> {
    const age = this.#options.clock.now() - this.#readAt;
    if (age >= REFRESH) {
      const reading = this.#readSoon();
      if (age >= TOO_OLD) await reading;
    }
    return this.#options.clock.now() - this.#readAt < TOO_OLD ? this.#keys : undefined;
  }

  /** A token names a key that is not in the set: the issuer may have changed its keys. @returns whether they were read again */
  async refreshed(): Promise<boolean> {
    const before = this.#readAt;
    await this.#readSoon();
    return this.#readAt !== before;
  }

  /** Reads the keys at once, at the start or because their file has changed. */
  async readNow(): Promise<void> {
    this.#mayReadAt = Number.NEGATIVE_INFINITY;
    await this.#reading;
    await this.#readSoon();
  }

  #readSoon(): Promise<void> {
    if (this.#reading !== undefined) return this.#reading;
    if (this.#options.clock.now() < this.#mayReadAt) return Promise.resolve();
    this.#reading = this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(): Promise<void> {
    const { clock, read, place, log } = this.#options;
    try {
      const text = await read();
      const keys = keySetIn(text, place);
      const isFirst = this.#keys === undefined;
      if (text !== this.#text) this.revision++;
      this.#text = text;
      this.#keys = createLocalJWKSet(keys);
      this.#readAt = clock.now();
      this.#mayReadAt = this.#readAt + COOL_DOWN;
      if (isFirst) log.info({ place, keys: keys.keys.length }, "the gateway uses the keys of a token issuer");
    } catch (error) {
      this.#mayReadAt = clock.now() + COOL_DOWN_FAILED;
      const counts = this.#keys !== undefined && clock.now() - this.#readAt < TOO_OLD;
      const effect = counts
        ? "the gateway uses the last keys for 24 h after it read them"
        : "tokens of this issuer get 503";
      this.#told.log(
        "error",
        "",
        { place, cause: messageOf(error) },
        `cannot read the keys of a token issuer: ${effect}`,
      );
    }
  }
}

/**
 * The public keys in a text (RFC 7517). Secret ones are left out: a list that others may read makes no secret a proof.
 * @throws SluiceError DOCUMENT_SYNTAX, DOCUMENT_INVALID
 */
export function keySetIn(text: string, place: string): JSONWebKeySet {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    throw new SluiceError("DOCUMENT_SYNTAX", `${place} is not JSON; it must be a JSON Web Key Set`);
  }
  const keys = (document as { keys?: unknown } | null)?.keys;
  if (!Array.isArray(keys))
    throw new SluiceError(
      "DOCUMENT_INVALID",
      `${place} has no list \`keys\`; it must be a JSON Web Key Set (RFC 7517)`,
    );
  if (keys.length > MAX_SIGNING_KEYS)
    throw new SluiceError(
      "DOCUMENT_INVALID",
      `${place} has more than ${MAX_SIGNING_KEYS} keys; leave only the keys that sign tokens`,
    );
  const usable = keys.filter((key): key is JSONWebKeySet["keys"][number] => {
    const { kty, d, k } = (key ?? {}) as Readonly<Record<string, unknown>>;
    return typeof kty === "string" && kty !== "oct" && d === undefined && k === undefined;
  });
  if (usable.length === 0)
    throw new SluiceError(
      "DOCUMENT_INVALID",
      `${place} has no public key; the gateway uses no secret keys (\`oct\`) and no private keys`,
    );
  return { keys: usable };
}
