import { oneLine } from "../../base/inference/errors.ts";
import { withoutQuery } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { BodyParser, RequestParser } from "../../base/plugin/kinds.ts";
import { DEFAULT_FAMILIES } from "./families.ts";

/** The parser for a request, and the path for it. */
export interface ChosenParser {
  readonly parser: BodyParser;
  /** As received, without the query string, which may hold secrets. */
  readonly path: string;
}

interface Entry {
  readonly suffix: string;
  readonly parser: BodyParser;
}

/** The parser of each path. */
export class ParserTable {
  readonly #whole = new Map<string, BodyParser>();
  /** Longest suffix first. */
  readonly #entries: readonly Entry[];
  readonly #fallback: BodyParser | undefined;

  /**
   * @param families in their configured order. Of two that claim the same suffix or path, the first one gets it; of several
   *   fallbacks the first one counts. Default: the set of epp-protocol 10.1
   */
  constructor(families: readonly RequestParser[] = DEFAULT_FAMILIES) {
    const entries: Entry[] = [];
    for (const { parsers } of families) {
      for (const parser of parsers) {
        for (const suffix of parser.suffixes) entries.push({ suffix, parser });
        for (const path of parser.paths ?? []) if (!this.#whole.has(path)) this.#whole.set(path, parser);
      }
    }
    // Sorting is stable: suffixes of one length stay in the order of the families.
    this.#entries = entries.sort((a, b) => b.suffix.length - a.suffix.length);
    this.#fallback =
      families.find(({ fallback }) => fallback !== undefined)?.fallback ??
      (families.length === 1 ? families[0]!.aloneFallback : undefined);
  }

  /**
   * Returns the parser that claims the whole path, else the one with the longest suffix that matches, else the fallback. The
   * query string and one trailing slash are cut (epp-protocol 10.1, E-100); a missing first slash is added.
   *
   * @param path value of `:path`
   * @returns the 400 of epp-protocol 9.3 when there is none
   */
  select(path: string): ChosenParser | Rejection {
    const bare = withoutQuery(path);
    const parser = this.#match(bare.startsWith("/") ? bare : `/${bare}`) ?? this.#fallback;
    if (parser !== undefined) return { parser, path: bare };
    return new Rejection("no_parser", oneLine(`no parser registered matching path suffix for: ${bare}`));
  }

  /** Whether a parser, apart from the fallback, claims the path. @param path value of `:path` */
  claims(path: string): boolean {
    const bare = withoutQuery(path);
    return this.#match(bare.startsWith("/") ? bare : `/${bare}`) !== undefined;
  }

  /** The paths that parsers claim, the fallback apart: whole paths, and `*` before a suffix. */
  get claimed(): readonly string[] {
    return [...this.#whole.keys(), ...new Set(this.#entries.map(({ suffix }) => `*${suffix}`))];
  }

  #match(path: string): BodyParser | undefined {
    const end = path.endsWith("/") ? path.length - 1 : path.length;
    if (this.#whole.size > 0) {
      const parser = this.#whole.get(end === path.length ? path : path.slice(0, end));
      if (parser !== undefined) return parser;
    }
    for (const entry of this.#entries) if (path.endsWith(entry.suffix, end)) return entry.parser;
    return undefined;
  }
}
