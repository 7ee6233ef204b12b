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
