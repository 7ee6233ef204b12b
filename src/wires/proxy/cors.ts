import { HeaderList } from "../../base/inference/headers.ts";
import type { LocalAnswer } from "./local-answer.ts";

/** Which pages of other origins may use the gateway from a browser. */
export interface CorsSettings {
  /** Origins such as `https://chat.example`, in lower case; `*` = every origin, without credentials. */
  readonly origins: readonly string[];
}

/** The methods that a page may use: those of the model servers' APIs. */
const METHODS = "GET, POST, DELETE";
/** Seconds for which a browser may keep the answer to its question. */
const MAX_AGE = "7200";
/** Headers of answers that a page may read, besides those that every page may. */
const EXPOSED =
  "retry-after, x-request-id, x-gateway-error, x-sluice-decision, x-sluice-decision-reason, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens";

/** A list of header names, as a browser asks for them. */
const HEADER_NAMES = /^[a-z0-9!#$%&'*+.^_`|~-]+( *, *[a-z0-9!#$%&'*+.^_`|~-]+)*$/;

/** The headers that let the page of one origin read an answer. */
export interface CorsHeaders {
  /** Name, value, name, value. */
  readonly flat: readonly string[];
  /** The headers of a model server's answer with these in place of its own. */
  onto(headers: HeaderList): HeaderList;
}

/** Answers the questions of browsers, and says on each answer which page may read it. */
export class Cors {
  readonly #any: boolean;
  readonly #origins: ReadonlySet<string>;

  constructor({ origins }: CorsSettings) {
    this.#any = origins.includes("*");
    this.#origins = new Set(origins);
  }

  /** The headers for the answer to a request. @param raw its headers: name, value, name, value */
  headersFor(raw: readonly string[]): CorsHeaders {
    return new OriginHeaders(this.#allowed(headerOf(raw, "origin")), this.#any);
  }

  /**
   * The answer to a preflight, which a browser sends before the request itself and without its key. An origin that is not listed
   * gets no permission, and the browser then refuses the page.
   * @returns undefined for any other request
   */
  preflight(method: string, raw: readonly string[]): LocalAnswer | undefined {
    if (method !== "OPTIONS") return undefined;
    const origin = headerOf(raw, "origin");
    if (origin === undefined || headerOf(raw, "access-control-request-method") === undefined) return undefined;
    // The answer says the headers of `headersFor`, too.
    if (this.#allowed(origin) === undefined) return { status: 204, headers: [], body: Buffer.alloc(0) };
    const asked = headerOf(raw, "access-control-request-headers")?.toLowerCase();
    const headers = ["access-control-allow-methods", METHODS, "access-control-max-age", MAX_AGE];
    // `*` would not include `authorization`, so each name is repeated.
    if (asked !== undefined && HEADER_NAMES.test(asked)) headers.push("access-control-allow-headers", asked);
    headers.push("vary", "access-control-request-headers");
    return { status: 204, headers, body: Buffer.alloc(0) };
  }

  #allowed(origin: string | undefined): string | undefined {
    if (origin === undefined) return undefined;
    if (this.#any) return "*";
    return this.#origins.has(origin.toLowerCase()) ? origin : undefined;
  }
}

class OriginHeaders implements CorsHeaders {
  readonly flat: readonly string[];

  /** @param origin the one that may read the answer; undefined = none @param any the answer is the same for all origins */
  constructor(origin: string | undefined, any: boolean) {
    this.flat = [
      ...(origin === undefined
        ? []
        : ["access-control-allow-origin", origin, "access-control-expose-headers", EXPOSED]),
      ...(origin === undefined || any ? [] : ["access-control-allow-credentials", "true"]),
      // A cache must not give the answer for one origin to another.
      ...(any ? [] : ["vary", "origin"]),
    ];
  }

  onto(headers: HeaderList): HeaderList {
    const merged = new HeaderList();
    for (let i = 0; i < headers.length; i++)
      if (!headers.keys[i]!.startsWith("access-control-")) merged.add(headers.keys[i]!, headers.values[i]!);
    for (let i = 0; i < this.flat.length; i += 2) merged.add(this.flat[i]!, this.flat[i + 1]!);
    return merged;
  }
}

/** The only value of a header; undefined when it is absent or repeated. */
function headerOf(raw: readonly string[], name: string): string | undefined {
  let found: string | undefined;
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]!.length !== name.length || raw[i]!.toLowerCase() !== name) continue;
    if (found !== undefined) return undefined;
    found = raw[i + 1]!;
  }
  return found;
}
