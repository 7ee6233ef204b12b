/** What a secret is replaced by in logs. */
const REDACTED = "REDACTED";

/** Names of values that are secrets; those that name a file or an environment variable are none. */
const SECRET_NAME = /(password|passwd|secret|token|credential|authorization|api_?key)s?$/i;
/** User and password of a URL, also inside a longer text such as nested parameters written as JSON. */
const URL_USER = /(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/?#"'@]*@/gi;
/** A query parameter or a JSON member that carries a secret, inside a text. */
const SECRET_IN_QUERY = /([?&][^=&\s"']*(?:password|secret|token|key)=)[^&\s"']+/gi;
const SECRET_IN_JSON =
  /("[^"]*(?:password|passwd|secret|token|credential|authorization|api_?key)s?"\s*:\s*)"(?:[^"\\]|\\.)*"/gi;

/** Gate parameters as they may stand in a log (async-processor 3.9): without passwords, tokens and users of URLs. */
export function redacted(value: unknown): unknown {
  if (typeof value === "string")
    return value
      .replace(URL_USER, `$1${REDACTED}@`)
      .replace(SECRET_IN_QUERY, `$1${REDACTED}`)
      .replace(SECRET_IN_JSON, `$1"${REDACTED}"`);
  if (Array.isArray(value)) return value.map(redacted);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, SECRET_NAME.test(name) ? REDACTED : redacted(inner)]),
  );
}
