import type { Clock } from "../../base/clock/clock.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { FLOW_HEADERS, type HeaderList } from "../../base/inference/headers.ts";
import { type OutcomeReason, Rejection } from "../../base/inference/outcomes.ts";
import { KEY_PREFIX } from "../../base/inference/secrets.ts";
import type { Authenticate, Verdict } from "../proxy/options.ts";
import { takeCredential } from "./credentials.ts";
import type { KeyFault, KeyTable } from "./key-table.ts";
import type { Tokens } from "./tokens.ts";

/** What happened to one request at the door; each call is one event. */
export interface AccessEvents {
  admitted(by: "key" | "token", caller: Caller): void;
  refused(reason: OutcomeReason): void;
}

interface GatekeeperOptions {
  readonly clock: Clock;
  /** The keys in force; undefined = there is no keys file. */
  readonly keys: { readonly table: KeyTable } | undefined;
  /** Undefined = no issuer of tokens is configured. */
  readonly tokens: Pick<Tokens, "verify"> | undefined;
  readonly events: AccessEvents;
}

const HOW = "send a key of this gateway in the header `authorization: Bearer KEY`, `x-api-key` or `api-key`";
const FAULTS: Readonly<Record<KeyFault, Rejection>> = {
  unknown: new Rejection(
    "key_invalid",
    "this gateway does not know the key; correct the key, or ask the operator for one",
  ),
  expired: new Rejection("key_expired", "the key has expired; ask the operator of the gateway for a new one"),
  revoked: new Rejection("key_revoked", "the key was revoked; ask the operator of the gateway for a new one"),
};
const IN_TARGET = new Rejection(
  "key_invalid",
  `the URL of the request holds a key, which logs may have stored; ask the operator to revoke this key, then ${HOW}`,
);
const MISSING = new Rejection("key_missing", `the request has no key; ${HOW}`);

/** Decides who may send requests, by key or token. Takes what proves it out of the request. */
export class Gatekeeper {
  readonly #options: GatekeeperOptions;

  constructor(options: GatekeeperOptions) {
    this.#options = options;
  }

  readonly authenticate: Authenticate = (head) => {
    const { clock, keys, tokens } = this.#options;
    const { headers } = head;
    if (head.path.includes(KEY_PREFIX)) return this.#refused(IN_TARGET);
    const credential = takeCredential(headers, tokens !== undefined);
    if (credential === undefined) return isHealthCheck(head) ? undefined : this.#refused(MISSING);
    if (credential.kind === "token" && tokens !== undefined) {
      const verdict = tokens.verify(credential.text, peerOf(headers));
      if (!(verdict instanceof Promise)) return this.#settled(verdict, "token", headers);
      return verdict.then((found) => this.#settled(found, "token", headers));
    }
    const found = keys?.table.find(credential.text, clock.wall()) ?? "unknown";
    return this.#settled(typeof found === "string" ? FAULTS[found] : found, "key", headers);
  };

  #settled(verdict: Caller | Rejection, by: "key" | "token", headers: HeaderList): Verdict {
    if (verdict instanceof Rejection) return this.#refused(verdict);
    // Without these headers, nobody behind the door can believe them: neither the picker nor a plugin.
    if (!verdict.choosesFlow)
      for (let at = headers.length - 1; at >= 0; at--) if (FLOW_HEADERS.has(headers.keys[at]!)) headers.removeAt(at);
    this.#options.events.admitted(by, verdict);
    return verdict;
  }

  #refused(rejection: Rejection): Rejection {
    this.#options.events.refused(rejection.reason);
    return rejection;
  }
}

/**
 * Whether a request asks for the health of the gateway. Without a key the gateway itself answers it: load balancers have no key,
 * and no request without one reaches a model server.
 */
export function isHealthCheck({ method, path }: { readonly method: string; readonly path: string }): boolean {
  return (method === "GET" || method === "HEAD") && (path === "/health" || path.startsWith("/health?"));
}

/** The address of the client, which the proxy has appended to `x-forwarded-for`. */
function peerOf(headers: HeaderList): string {
  const all = headers.get("x-forwarded-for") ?? "";
  return all.slice(all.lastIndexOf(",") + 1).trim();
}
