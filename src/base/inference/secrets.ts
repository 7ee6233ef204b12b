/** The beginning of every key of a gateway, by which people and scanners of repositories recognise one. */
export const KEY_PREFIX = "sk-sluice-";

const KEYS = new RegExp(`${KEY_PREFIX}[\\w-]*`, "g");

/** The text with `sk-sluice-***` in place of each key: people put keys where no key belongs, and logs must not keep them. */
export function withoutKeys(text: string): string {
  // Nearly every text.
  if (!text.includes(KEY_PREFIX)) return text;
  return text.replace(KEYS, `${KEY_PREFIX}***`);
}

/** Stands in place of a secret. */
export const REDACTED = "REDACTED";

/** Names of values that are secrets; names of files and environment variables are none. */
const NAMES = "password|passwd|passphrase|secret|token|credential|authorization|cookie|api[-_]?key|private[-_]?key";
const SECRET_NAME = new RegExp(`(?:${NAMES})s?$`, "i");
/** User and password of a URL, also inside a longer text such as nested parameters written as JSON. A password may contain `@`. */
const URL_USER = /(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/?#"]*@/gi;
/** A query parameter or a JSON member that carries a secret, inside a text. */
const SECRET_IN_QUERY = /([?&][^=&\s"']*(?:password|secret|token|key)=)[^&\s"']+/gi;
const SECRET_IN_JSON = new RegExp(`("[^"]*(?:${NAMES})s?"\\s*:\\s*)"(?:[^"\\\\]|\\\\.)*"`, "gi");
/** The first entry of a line of YAML: indent, name and value. */
const YAML_ENTRY = /^(\s*(?:- +)*)(["']?)([\w.-]+)\2(\s*:)(?:\s+(.*))?$/;
/** An entry inside braces or brackets of YAML, up to the next comma or bracket outside quotes. */
const YAML_FLOW_ENTRY = new RegExp(
  `([{,[]\\s*["']?[\\w.-]*(?:${NAMES})s?["']?\\s*:\\s*)("(?:[^"\\\\]|\\\\.)*"|'[^']*'|[^,}\\]]+)`,
  "gi",
);
/** Values that are no secret, whatever their name. */
const YAML_PLAIN = /^(?:[-+]?[\d.]+|true|false|null|~)?\s*(?:#.*)?$/i;

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

/**
 * The lines of a YAML text, valid or not, for a page: without passwords, tokens and users of URLs. Each line stays in its place. What
 * stands deeper than a secret name belongs to it, such as the lines of a block.
 */
export function yamlLinesWithoutSecrets(text: string): string[] {
  /** Indent of the secret name whose lines follow; -1 = none. */
  let secretIndent = -1;
  return text.split("\n").map((line) => {
    const indent = line.search(/\S/);
    if (secretIndent >= 0) {
      if (indent < 0) return line;
      if (indent > secretIndent) return `${" ".repeat(indent)}${REDACTED}`;
      secretIndent = -1;
    }
    const [, lead, quote, name, colon, value = ""] = YAML_ENTRY.exec(line) ?? [];
    if (name !== undefined && isSecretName(name) && (value === "" || !YAML_PLAIN.test(value))) {
      secretIndent = lead!.length;
      return `${lead}${quote}${name}${quote}${colon}${value === "" ? "" : ` ${REDACTED}`}`;
    }
    return withoutKeys(String(redacted(line.replace(YAML_FLOW_ENTRY, `$1${REDACTED}`))));
  });
}

/** Whether a value with this name is a secret, such as `redis-password` or `apiKey`. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** Whether a value is a secret. A number is none, whatever its name: `maxTokens` is a count. */
export function isSecret(name: string, value: unknown): boolean {
  return isSecretName(name) && typeof value !== "number" && typeof value !== "boolean";
}
