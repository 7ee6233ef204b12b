/** The longest text in a query parameter. */
const MAX_TEXT = 512;

/** A query that a route does not take; the message is for its sender. */
export class QueryError extends Error {}

/** The checked parameters of one request to a route. */
export class Query {
  readonly #parameters: URLSearchParams;
  readonly #names: readonly string[];

  /**
   * @param url of the request
   * @param names of the parameters that the route takes; `name*` may repeat
   * @throws QueryError for another name, a name given twice, and a text that is too long
   */
  constructor(url: string, names: readonly string[]) {
    this.#parameters = new URL(url).searchParams;
    this.#names = names.map((name) => name.replace("*", ""));
    for (const name of this.#parameters.keys()) {
      const shown = JSON.stringify(name.slice(0, 60));
      if (!this.#names.includes(name)) {
        const known = this.#names.length === 0 ? "this path takes none" : `this path takes ${this.#names.join(", ")}`;
        throw new QueryError(`the query parameter ${shown} is unknown; ${known}`);
      }
      const values = this.#parameters.getAll(name);
      if (values.length > (names.includes(`${name}*`) ? 16 : 1))
        throw new QueryError(`the query parameter ${shown} is given too often`);
      if (values.some((value) => value.length > MAX_TEXT))
        throw new QueryError(`the query parameter ${shown} is longer than ${MAX_TEXT} characters`);
    }
  }

  /** Undefined = not given, or empty. */
  text(name: string): string | undefined {
    return this.#parameters.get(name) || undefined;
  }

  all(name: string): readonly string[] {
    return this.#parameters.getAll(name).filter((value) => value !== "");
  }

  /** @throws QueryError */
  must(name: string): string {
    const value = this.text(name);
    if (value === undefined) throw new QueryError(`give the query parameter ${name}`);
    return value;
  }

  /** @throws QueryError unless it is a whole number from `least` to `most` */
  whole<T>(name: string, least: number, most: number, otherwise: T): number | T {
    const value = this.text(name);
    if (value === undefined) return otherwise;
    const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
    if (number >= least && number <= most) return number;
    throw new QueryError(`${name} is a whole number from ${least} to ${most}`);
  }

  /** @throws QueryError unless it is one of `values` */
  one<const T extends string>(name: string, values: readonly T[]): T | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    const found = values.find((known) => known === value);
    if (found === undefined) throw new QueryError(`${name} is one of ${values.join(", ")}`);
    return found;
  }

  /** Several of `values`, by commas. @throws QueryError */
  some<const T extends string>(name: string, values: readonly T[]): readonly T[] | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    return value.split(",").map((part) => {
      const found = values.find((known) => known === part);
      if (found === undefined) throw new QueryError(`${name} is a list of ${values.join(", ")}, separated by commas`);
      return found;
    });
  }
}
