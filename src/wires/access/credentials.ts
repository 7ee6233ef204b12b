import { type HeaderList, withoutBlanks } from "../../base/inference/headers.ts";
import { KEY_PREFIX } from "../../base/inference/secrets.ts";

/** The headers in which clients send a key or a token: OpenAI's, Anthropic's, Azure's. */
const CREDENTIAL_HEADERS: readonly string[] = ["authorization", "x-api-key", "api-key"];
const BEARER = /^bearer(?:[ \t]+|$)/i;
/** A signed token has three parts in base64url; the first one begins with `{"`. */
const TOKEN = /^eyJ[\w-]*\.[\w-]*\.[\w-]*$/;

/** What a client presents. */
export interface Credential {
  readonly kind: "key" | "token" | "other";
  readonly text: string;
}

interface Found extends Credential {
  readonly at: number;
}

/**
 * Takes the credential out of the headers of a request. The first header with a key of this gateway counts, then the first with
 * a token, then the first with anything. The header of that credential is removed, and each header of any name that holds a key
 * anywhere, or the same text: no key reaches a model server, a plugin or a record. Another credential stays, since it may be
 * meant for the model server.
 * @param tokens whether tokens count here; else they are left to the model server
 * @returns undefined when the request presents nothing
 */
export function takeCredential(headers: HeaderList, tokens: boolean): Credential | undefined {
  const found: Found[] = [];
  for (let at = 0; at < headers.length; at++) {
    const name = headers.keys[at]!;
    if (!CREDENTIAL_HEADERS.includes(name)) continue;
    const text = withoutBlanks(withoutBlanks(headers.values[at]!).replace(BEARER, ""));
    if (text !== "") found.push({ at, kind: kindOf(text), text });
  }
  const isCounted = ({ kind }: Found): boolean => kind === "key" || (tokens && kind === "token");
  const chosen = found.find(({ kind }) => kind === "key") ?? found.find(isCounted) ?? found[0];
  if (chosen === undefined) return undefined;
  const isSame = (at: number): boolean => found.some((other) => other.at === at && other.text === chosen.text);
  for (let at = headers.length - 1; at >= 0; at--) {
    const holdsKey = headers.values[at]!.includes(KEY_PREFIX) && !headers.keys[at]!.startsWith(":");
    if (holdsKey || isSame(at)) headers.removeAt(at);
  }
  return { kind: chosen.kind, text: chosen.text };
}

function kindOf(text: string): Credential["kind"] {
  // A mistyped key is still one: its client hears that the key is unknown, whatever else it presents.
  if (text.startsWith(KEY_PREFIX)) return "key";
  return TOKEN.test(text) ? "token" : "other";
}
