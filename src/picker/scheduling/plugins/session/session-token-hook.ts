import { z } from "zod";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import type { HeaderList } from "../../../../base/inference/headers.ts";
import { defineRequestHook } from "../../../../base/plugin/define.ts";
import type { PreRequestContext, RequestHook, ResponseReceivedContext } from "../../../../base/plugin/kinds.ts";
import { headerName } from "./session-affinity-parameters.ts";

/** The longest token that is decoded: no endpoint has a longer name. */
const MAX_LENGTH = 1024;

/** Returns the token of an endpoint: its id in standard base64 (scheduling 3.9.2). */
export function encodeSessionToken(endpointId: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(endpointId)));
}

/** Returns the endpoint id of a token; undefined when the text is no token. */
export function decodeSessionToken(token: string): string | undefined {
  if (token.length > MAX_LENGTH) return undefined;
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(token), (byte) => byte.charCodeAt(0)));
  } catch {
    return undefined;
  }
}

/** Not a published type. The response side of session affinity (scheduling 3.9.2). */
export const sessionTokenHook = defineRequestHook({
  type: "session-token-hook",
  describe: "Writes the token of an endpoint into a header of the response. Sluice adds it with session affinity.",
  parameters: z.strictObject({
    header: headerName.prefault("x-session-token").describe("The header."),
    profileName: z
      .string()
      .default("")
      .describe("The profile whose first endpoint the token names; empty = the endpoint that serves."),
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

/** Keeps the choice of a profile from the request to the response, and writes its token then. */
class TokenOfProfile implements RequestHook {
  readonly #header: string;
  readonly #profile: string;
  /**
   * The chosen endpoint by the headers of the request: the response has the request without its body, as another object, but
   * with the same headers. Undefined: the profile chose the endpoint that serves, which a retry may still change.
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
