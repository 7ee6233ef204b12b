/** The beginning of every key of a gateway, by which people and scanners of repositories recognise one. */
export const KEY_PREFIX = "sk-sluice-";

const KEYS = new RegExp(`${KEY_PREFIX}[\\w-]*`, "g");

/** The text with `sk-sluice-***` in place of each key: people put keys where no key belongs, and logs must not keep them. */
export function withoutKeys(text: string): string {
  // Nearly every text.
  if (!text.includes(KEY_PREFIX)) return text;
  return text.replace(KEYS, `${KEY_PREFIX}***`);
}

const REDACTED = "REDACTED";

/** Names of values that are secrets; names of files and environment variables are none. */
const SECRET_NAME = /(password|passwd|secret|token|credential|authorization|api_?key)s?$/i;
/** User and password of a URL, also inside a longer text such as nested parameters written as JSON. */
const URL_USER = /(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/?#"'@]*@/gi;
/** A query parameter or a JSON member that carries a secret, inside a text. */
const SECRET_IN_QUERY = /([?&][^=&\s"']*(?:password|secret|token|key)=)[^&\s"']+/gi;
const SECRET_IN_JSON =
  /("[^"]*(?:password|passwd|secret|token|credential|authorization|api_?key)s?"\s*:\s*)"(?:[^"\\]|\\.)*"/gi;

/** Parameters for a log or a page (async-processor 3.9): without passwords, tokens and users of URLs. */
export function redacted(value: unknown): unknown {
  if (typeof value === "string")
    return value
      .replace(URL_USER, `$1${REDACTED}@`)
      .replace(SECRET_IN_QUERY, `$1${REDACTED}`)
      .replace(SECRET_IN_JSON, `$1"${REDACTED}"`);
  if (Array.isArray(value)) return value.map(redacted);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, isSecret(name, inner) ? REDACTED : redacted(inner)]),
  );
}

/** A number is no secret, whatever its name: `maxTokens` is a count. */
function isSecret(name: string, value: unknown): boolean {
  return SECRET_NAME.test(name) && typeof value !== "number" && typeof value !== "boolean";
}
