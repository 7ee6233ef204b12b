import { z } from "zod";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import type { HeaderList } from "../../../../base/inference/headers.ts";
import { defineRequestHook } from "../../../../base/plugin/define.ts";
import type { PreRequestContext, RequestHook, ResponseReceivedContext } from "../../../../base/plugin/kinds.ts";
import { headerName } from "./session-affinity-parameters.ts";

/** Longer ones are not looked at: no endpoint has such a name. */
const MAX_LENGTH = 1024;

/** The token of an endpoint: its id in standard base64 (scheduling 3.9.2). */
export function encodeSessionToken(endpointId: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(endpointId)));
}

/** The endpoint id of a token; undefined when it is none. */
export function decodeSessionToken(token: string): string | undefined {
  if (token.length > MAX_LENGTH) return undefined;
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(token), (byte) => byte.charCodeAt(0)));
  } catch {
    return undefined;
  }
}

/** Not a published type: the response side of session affinity (scheduling 3.9.2). */
export const sessionTokenHook = defineRequestHook({
  type: "session-token-hook",
  describe: "Writes the token of an endpoint into a header of the response; comes along with session affinity.",
  parameters: z.strictObject({
    header: headerName.prefault("x-session-token").describe("The header."),
    profileName: z
      .string()
      .default("")
      .describe("The profile whose first endpoint it is; empty = the endpoint that serves."),
  }),
  create: ({ header, profileName }): RequestHook =>
    profileName === ""
      ? {
          responseReceived({ endpoint, setHeader }) {
            if (endpoint !== undefined) setHeader(header, encodeSessionToken(endpoint.id));
          },
        }
      : new TokenOfProfile(header, profileName),
});

/** What a profile chose is known when the request leaves, and told when the answer comes. */
class TokenOfProfile implements RequestHook {
  readonly #header: string;
  readonly #profile: string;
  /**
   * By the headers of the request: the answer finds it without its body, as an object of its own. Undefined: the profile is
   * the one that serves, and that may yet be another endpoint.
   */
  readonly #chosen = new WeakMap<HeaderList, Endpoint | undefined>();

  constructor(header: string, profile: string) {
    this.#header = header;
    this.#profile = profile;
  }

  preRequest({ request, endpoints, profiles }: PreRequestContext): void {
    const chosen = profiles.get(this.#profile)?.[0];
    if (chosen !== undefined) this.#chosen.set(request.headers, chosen === endpoints[0] ? undefined : chosen);
  }

  responseReceived({ request, endpoint, setHeader }: ResponseReceivedContext): void {
    if (request === undefined || !this.#chosen.has(request.headers)) return;
    const chosen = this.#chosen.get(request.headers) ?? endpoint;
    if (chosen !== undefined) setHeader(this.#header, encodeSessionToken(chosen.id));
  }
}
