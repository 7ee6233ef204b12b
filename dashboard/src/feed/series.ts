import type { Tick } from "../../../src/wires/admin/feed/feed.ts";
import type { FigureName, Figures, Overview } from "../../../src/wires/admin/feed/overview.ts";

type Value = number | null;

/** The most seconds kept: as many as the ring of the process. */
export const SECONDS = 900;

/** The figures of the last 15 minutes, one value a second. A second without a tick has nulls. */
export class Series {
  /** Unix seconds, ascending, one apart. */
  readonly seconds: number[] = [];
  readonly #figures = new Map<FigureName, Value[]>();
  /** Counts the changes, so that what is drawn knows when it is old. */
  version = 0;

  get last(): number | undefined {
    return this.seconds.at(-1);
  }

  /** The values of a figure, as many as `seconds`; undefined when the process has no such figure. */
  values(name: FigureName): readonly Value[] | undefined {
    return this.#figures.get(name);
  }

  /** The newest value that is known. */
  latest(name: FigureName): Value {
    return this.#figures.get(name)?.at(-1) ?? null;
  }

  /** Takes all seconds of an answer in place of what was there. */
  fill({ from, count, figures }: Pick<Overview, "from" | "count" | "figures">): void {
    this.clear();
    const kept = Math.min(count, SECONDS);
    const first = from + count - kept;
    for (let at = 0; at < kept; at++) this.seconds.push(first + at);
    for (const [name, values] of entries(figures)) this.#figures.set(name, values.slice(count - kept));
  }

  /** Adds a second, and nulls for those that were missed. A second that is known already is ignored. */
  add({ second, figures }: Pick<Tick, "second" | "figures">): void {
    const { last } = this;
    if (last !== undefined && second <= last) return;
    if (last !== undefined && second - last > SECONDS) this.clear();
    for (let at = (this.last ?? second - 1) + 1; at < second; at++) this.#push(at, {});
    this.#push(second, figures);
    this.version++;
  }

  clear(): void {
    this.seconds.length = 0;
    this.#figures.clear();
    this.version++;
  }

  #push(second: number, figures: Figures<Value>): void {
    for (const [name] of entries(figures))
      if (!this.#figures.has(name)) this.#figures.set(name, new Array<Value>(this.seconds.length).fill(null));
    this.seconds.push(second);
    for (const [name, values] of this.#figures) values.push(figures[name] ?? null);
    if (this.seconds.length <= SECONDS) return;
    this.seconds.shift();
    for (const values of this.#figures.values()) values.shift();
  }
}

/** How many endpoints are up, and how many there are; undefined = the process reports none. */
export function endpointCounts(series: Series): { readonly up: number; readonly all: number } | undefined {
  const up = series.latest("endpoints.up");
  if (up === null) return undefined;
  return { up, all: up + (series.latest("endpoints.down") ?? 0) + (series.latest("endpoints.blind") ?? 0) };
}

function entries<T>(figures: Figures<T>): (readonly [FigureName, T])[] {
  return Object.entries(figures) as [FigureName, T][];
}
