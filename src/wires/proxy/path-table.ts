import { oneLine } from "../../base/inference/errors.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { type BadRequest, malformed } from "./bad-request.ts";
import { PathPattern, pathOf, plainPath, withoutLastSlash } from "./path-pattern.ts";
import { PATH_ROWS, type PathKind } from "./path-rows.ts";

/** One entry of the rows. */
interface Entry {
  readonly kind: Exclude<PathKind, "allowed">;
  readonly method: "GET" | "POST" | "*";
  readonly pattern: PathPattern;
}

const ENTRIES: readonly Entry[] = PATH_ROWS.flatMap(({ kind, method, paths }) =>
  paths.map((path) => ({ kind, method, pattern: new PathPattern(path) })),
);
const EXACT = new Map(ENTRIES.filter(({ pattern }) => pattern.exact).map((entry) => [entry.pattern.text, entry]));
const PATTERNS = ENTRIES.filter(({ pattern }) => !pattern.exact);
/** Characters of the longest path that stands for itself. */
const LONGEST = Math.max(...[...EXACT.keys()].map(({ length }) => length));
/** The most paths that a table knows, and the characters of the longest one. */
const MOST_KNOWN = 256;
const LONGEST_KNOWN = 128;
/** Triton has its models beneath this path, also those with the name of an entry. */
const TRITON = "/v2/";
/**
 * vLLM, SGLang and TensorRT-LLM serve their metrics at every path that begins like this, such as `/metrics/chat/completions`, and
 * to every method.
 */
const METRICS = /^\/(?:prometheus\/)?metrics/;

/** Whether the path, without a slash at its end, is beneath one of administration: servers mount applications on such paths. */
function isBeneathAdministration(path: string): boolean {
  if (METRICS.test(path)) return true;
  if (path.startsWith(TRITON)) return false;
  for (let end = path.indexOf("/", 1); end > 0 && end <= LONGEST; end = path.indexOf("/", end + 1))
    if (EXACT.get(path.slice(0, end))?.method === "*") return true;
  return false;
}

/** Whether an entry for `has` covers `method`: HEAD asks as GET does, and OPTIONS asks what a path offers. */
function covers(has: "GET" | "POST", method: string): boolean {
  return method === has || method === "OPTIONS" || (has === "GET" && method === "HEAD");
}

/** One line of `sluice gateway --print-paths`. */
export interface PrintedPath {
  readonly methods: string;
  readonly path: string;
  readonly kind: PathKind;
}

/**
 * Decides which requests of clients may reach a model server. The kind of method and path decides; all that no list names is
 * administration.
 */
export class PathTable {
  readonly #claims: (path: string) => boolean;
  readonly #allowed: readonly PathPattern[];
  readonly #allowsAll: boolean;
  /** What the rows say of paths that passed; null = no row has the path. Paths repeat, and to find the row takes a while. */
  readonly #known = new Map<string, Entry | null>();

  /**
   * @param claims whether a parser in force reads the bodies of a path
   * @param allowed the paths that the operator allows; `/*` allows all, and turns the table off
   */
  constructor(claims: (path: string) => boolean, allowed: readonly PathPattern[]) {
    this.#claims = claims;
    this.#allowed = allowed;
    this.#allowsAll = allowed.some(({ text }) => text === "/*");
  }

  /** The kind of a request. @param path without query */
  kindOf(method: string, path: string): PathKind {
    const bare = withoutLastSlash(path);
    const known = this.#known.get(bare);
    if (known !== undefined) return this.#kindBy(known ?? undefined, method, path);
    let entry = EXACT.get(bare);
    // Most paths are exact, and most operators allow no further ones: then nothing is split.
    if (entry === undefined || this.#allowed.length > 0) {
      const segments = bare.split("/");
      if (this.#allowed.some((pattern) => pattern.matches(segments))) return "allowed";
      if (entry === undefined && isBeneathAdministration(bare)) return "administration";
      entry ??= PATTERNS.find(({ pattern }) => pattern.matches(segments));
    }
    const kind = this.#kindBy(entry, method, path);
    if (kind !== "administration" && this.#known.size < MOST_KNOWN && bare.length <= LONGEST_KNOWN)
      this.#known.set(bare, entry ?? null);
    return kind;
  }

  #kindBy(entry: Entry | undefined, method: string, path: string): PathKind {
    if (entry?.method === "*") return "administration";
    if ((method === "POST" || method === "OPTIONS") && this.#claims(path)) return "inference";
    return entry !== undefined && covers(entry.method, method) ? entry.kind : "administration";
  }

  /**
   * Undefined for a request that may reach a model server; else the answer to it. The table judges the bytes that the proxy
   * forwards, so it refuses a path that another reader could take for a path of another kind.
   * @param target path and query, as `originForm` returns them
   */
  judge(method: string, target: string): Rejection | BadRequest | undefined {
    if (this.#allowsAll) return undefined;
    const path = pathOf(target);
    const plain = plainPath(path);
    if (plain === undefined) {
      return malformed(
        "the path holds an empty segment (//) or a character that servers read in several ways; send the path without these",
      );
    }
    const passes = this.kindOf(method, plain) !== "administration";
    if (plain !== path && passes !== (this.kindOf(method, path) !== "administration")) {
      return malformed("percent-escapes in the path make it ambiguous; send the path without the escapes");
    }
    if (passes) return undefined;
    const request = oneLine(`${method} ${path}`);
    return new Rejection("path_not_allowed", `this gateway does not pass ${request} to model servers`);
  }
}

const METHODS = { GET: "GET HEAD OPTIONS", POST: "POST OPTIONS", "*": "*" } as const;

/**
 * The table for people. Where two lines fit a request, an allowed line wins, then a line of administration, except the last line.
 * @param claimed the paths of the parsers, `*` before a suffix
 * @param allowed as for `PathTable`
 */
export function printedPaths(claimed: readonly string[], allowed: readonly PathPattern[]): readonly PrintedPath[] {
  const inference = claimed.map((path) => ({ methods: METHODS.POST, path, kind: "inference" as const }));
  const rows = ENTRIES.map(({ kind, method, pattern }) => ({ methods: METHODS[method], path: pattern.text, kind }));
  const opened = allowed.map(({ text }) => ({ methods: METHODS["*"], path: text, kind: "allowed" as const }));
  const others = { methods: METHODS["*"], path: "/*", kind: "administration" as const };
  const isAllowed = ({ path }: PrintedPath): boolean => allowed.some((pattern) => pattern.matches(path.split("/")));
  const closed = [...rows, others].filter((row) => row.kind === "administration" && !isAllowed(row));
  return [...inference, ...rows.filter(({ kind }) => kind !== "administration"), ...opened, ...closed];
}
