import { SluiceError } from "../../base/inference/errors.ts";

/** A path with places for any segment: `{name}` stands for one segment, a final `/*` for one or more segments. */
export class PathPattern {
  /** As it was given. */
  readonly text: string;
  readonly #segments: readonly string[];
  /** Any segments may follow, at least one. */
  readonly #open: boolean;

  constructor(text: string) {
    const segments = text.split("/");
    this.text = text;
    this.#open = segments.at(-1) === "*";
    this.#segments = this.#open ? segments.slice(0, -1) : segments;
  }

  /** Whether the pattern has no places, and so stands for itself alone. */
  get exact(): boolean {
    return !this.#open && !this.text.includes("{");
  }

  /** @param given the path without a slash at the end, split at its slashes */
  matches(given: readonly string[]): boolean {
    const own = this.#segments;
    if (this.#open ? given.length <= own.length : given.length !== own.length) return false;
    return own.every((segment, at) => segment === given[at] || segment.startsWith("{"));
  }
}

/** Segments of the characters that RFC 3986 lets a path have, without `;` and `%`; no empty one, none of dots alone. */
const PLAIN = /^(?:\/(?!\.{1,2}(?:\/|$))[\w.~!$&'()*+,=:@-]+)*\/?$/;
const ESCAPE = /%([0-9a-f]{2})/gi;

/**
 * The one path that every reader makes of `path`: the path itself, or the path with its escapes decoded. Undefined when readers
 * may disagree: after one decoding the path has an escape again, an empty or a dot segment, `;`, or a character that no path has.
 * @param path without query
 */
export function plainPath(path: string): string | undefined {
  if (path === "") return undefined;
  if (PLAIN.test(path)) return path;
  const decoded = path.replace(ESCAPE, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
  return PLAIN.test(decoded) ? decoded : undefined;
}

/** The path of a request target, without its query. */
export function pathOf(target: string): string {
  const query = target.indexOf("?");
  return query < 0 ? target : target.slice(0, query);
}

/** Removes the slash at the end: servers and parsers read the path with and without it alike. */
export function withoutLastSlash(path: string): string {
  return path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path;
}

/**
 * A value of `--allow-path`: a path, or the beginning of paths before a final `/*`.
 * @throws SluiceError FLAG_VALUE
 */
export function allowedPath(text: string): PathPattern {
  const fixed = text.endsWith("/*") ? text.slice(0, -2) : text;
  const written = text === "/" || text === "/*" || (fixed.length > 1 && !/[*%]|\/$/.test(fixed) && PLAIN.test(fixed));
  if (written) return new PathPattern(text);
  const shown = JSON.stringify(text.slice(0, 100));
  throw new SluiceError(
    "FLAG_VALUE",
    `--allow-path is ${shown}; give a path such as /load_lora_adapter, or a prefix that ends in /*, such as /v1/files/*`,
  );
}
