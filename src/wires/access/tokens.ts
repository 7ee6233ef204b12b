import { errors, type JWTVerifyGetKey, jwtVerify } from "jose";
import type { Clock } from "../../base/clock/clock.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { IssuerKeys } from "./issuer-keys.ts";
import { digestOf } from "./key-text.ts";
import type { TokenSettings } from "./keys-settings.ts";
import { type Claims, callerOf } from "./token-claims.ts";

/** The longest token, in characters: the headers of a request are bounded, but a signature is computed over all of it. */
const MAX_TOKEN = 16 * 1024;
/** The most verified tokens that are kept. */
const MAX_KEPT = 10_000;
/** The most checks of signatures at a time, of the process and of one client address. One client cannot take all. */
const MAX_CHECKS = 128;
const MAX_CHECKS_OF_ONE = 16;
/** Seconds until another try makes sense. */
const RETRY_AFTER = 5;

/** An issuer with its keys. */
export interface Issuer {
  readonly settings: TokenSettings;
  readonly keys: Pick<IssuerKeys, "current" | "refreshed" | "revision">;
}

/** Milliseconds after which a kept token is checked again: its issuer may have withdrawn the key that signed it. */
const CHECK_AGAIN = 600_000;

interface Kept {
  readonly caller: Caller;
  readonly keys: Issuer["keys"];
  /** Of the keys that have verified it. */
  readonly revision: number;
  /** Unix milliseconds. */
  readonly until: number;
}

/** Verifies tokens. A request costs no check of a signature while its token is kept: at most until the token expires. */
export class Tokens {
  readonly #clock: Clock;
  readonly #issuers: ReadonlyMap<string, Issuer>;
  /** By digest, so that a copy of the memory holds no token. In the order of use. */
  readonly #kept = new Map<string, Kept>();
  readonly #checks = new Map<string, number>();
  #checking = 0;

  constructor(clock: Clock, issuers: readonly Issuer[]) {
    this.#clock = clock;
    this.#issuers = new Map(issuers.map((issuer) => [issuer.settings.issuer, issuer]));
  }

  /** @param peer address of the client */
  verify(token: string, peer: string): Caller | Rejection | Promise<Caller | Rejection> {
    if (token.length > MAX_TOKEN) return invalid(`it is longer than ${MAX_TOKEN} characters`);
    const digest = digestOf(token).toString("base64");
    const kept = this.#kept.get(digest);
    const now = this.#clock.wall();
    if (kept !== undefined && now < kept.until && kept.revision === kept.keys.revision) {
      this.#keep(digest, kept);
      return kept.caller;
    }
    this.#kept.delete(digest);
    const { iss, exp } = unprovenIn(token);
    const issuer = typeof iss === "string" ? this.#issuers.get(iss) : undefined;
    if (issuer === undefined) return invalid("its issuer (claim `iss`) is not one that this gateway trusts");
    // Most refusals end here, without a check of a signature.
    if (typeof exp === "number" && exp * 1000 + issuer.settings.clockTolerance <= now) return expired();
    const ofPeer = this.#checks.get(peer) ?? 0;
    if (this.#checking >= MAX_CHECKS || ofPeer >= MAX_CHECKS_OF_ONE)
      return new Rejection("token_unverifiable", BUSY, BUSY, 1);
    this.#checking++;
    this.#checks.set(peer, ofPeer + 1);
    return this.#check(token, digest, issuer).finally(() => this.#checked(peer));
  }

  #checked(peer: string): void {
    this.#checking--;
    const left = this.#checks.get(peer)! - 1;
    if (left === 0) this.#checks.delete(peer);
    else this.#checks.set(peer, left);
  }

  async #check(token: string, digest: string, { settings, keys }: Issuer): Promise<Caller | Rejection> {
    // Read before the keys: where they change meanwhile, the token is checked again.
    let { revision } = keys;
    const first = await keys.current();
    if (first === undefined) return unreachable(settings.issuer);
    // These are the first keys.
    if (revision === 0) revision = keys.revision;
    let claims = await this.#claimsIn(token, first, settings);
    if (claims === UNKNOWN_KEY && (await keys.refreshed())) {
      revision = keys.revision;
      const again = (await keys.current())!;
      claims = await this.#claimsIn(token, again, settings);
    }
    if (claims === UNKNOWN_KEY) return invalid("its issuer lists no key that fits its `kid` and `alg`");
    if (claims instanceof Rejection) return claims;
    const caller = callerOf(claims, settings);
    if (typeof caller === "string") return invalid(caller);
    const expires = (claims["exp"] as number) * 1000 + settings.clockTolerance;
    this.#keep(digest, { caller, keys, revision, until: Math.min(expires, this.#clock.wall() + CHECK_AGAIN) });
    return caller;
  }

  async #claimsIn(
    token: string,
    keys: JWTVerifyGetKey,
    settings: TokenSettings,
  ): Promise<Claims | Rejection | typeof UNKNOWN_KEY> {
    const { issuer, audience, algorithms, clockTolerance } = settings;
    try {
      const { payload } = await jwtVerify(token, keys, {
        issuer,
        audience,
        algorithms,
        clockTolerance: clockTolerance / 1000,
        currentDate: new Date(this.#clock.wall()),
        requiredClaims: ["exp", "sub"],
      });
      return payload;
    } catch (error) {
      return faultOf(error);
    }
  }

  #keep(digest: string, kept: Kept): void {
    this.#kept.delete(digest);
    this.#kept.set(digest, kept);
    if (this.#kept.size <= MAX_KEPT) return;
    for (const oldest of this.#kept.keys()) {
      this.#kept.delete(oldest);
      break;
    }
  }
}

/** The key set has no such key. */
const UNKNOWN_KEY = "unknown key";
const BUSY = "the gateway checks too many tokens at the moment; try again in 1 s";

/** What is wrong, in words of ours: the library's messages may hold parts of the token. */
function faultOf(error: unknown): Rejection | typeof UNKNOWN_KEY {
  if (error instanceof errors.JWKSNoMatchingKey) return UNKNOWN_KEY;
  if (error instanceof errors.JWTExpired) return expired();
  if (error instanceof errors.JWTClaimValidationFailed)
    return invalid(`its claim \`${error.claim}\` is missing, or this gateway does not accept the value`);
  if (error instanceof errors.JWSSignatureVerificationFailed) return invalid("its signature is wrong");
  if (error instanceof errors.JOSEAlgNotAllowed)
    return invalid("its algorithm (`alg`) is not one that this gateway accepts");
  if (error instanceof errors.JWKSMultipleMatchingKeys)
    return invalid("it names no key (`kid`), and several keys of its issuer fit");
  // Also other errors come from what the client sent, such as a header that no key fits.
  return invalid("it is not a signed JWT");
}

function invalid(problem: string): Rejection {
  return new Rejection("key_invalid", `the token is not valid: ${problem}`);
}

function expired(): Rejection {
  return new Rejection("key_expired", "the token has expired; get a new one from its issuer");
}

function unreachable(issuer: string): Rejection {
  const text = `the gateway cannot check tokens of ${issuer}, because it cannot read the keys of this issuer; try again later`;
  return new Rejection("token_unverifiable", text, text, RETRY_AFTER);
}

/** What a token says of its issuer and its end, before anything of it is proved; nothing when it cannot be read. */
function unprovenIn(token: string): { readonly iss?: unknown; readonly exp?: unknown } {
  const start = token.indexOf(".") + 1;
  try {
    const text = Buffer.from(token.slice(start, token.indexOf(".", start)), "base64url").toString();
    return (JSON.parse(text) as object | null) ?? {};
  } catch {
    return {};
  }
}
