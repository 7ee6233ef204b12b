import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import { labelOf } from "../filters/label-selector.ts";

/** Labels of a pool whose values are kept; more than there are kinds of servers in any. */
const MAX_KEPT = 256;

/** Lengths of requests, in tokens, that an endpoint is meant for; both bounds belong to it. */
export interface ContextLengthRange {
  readonly min: number;
  readonly max: number;
}

/** Reads ranges out of a label, each value once. */
export class ContextLengthRanges {
  readonly #label: string;
  readonly #known = new Map<string, ContextLengthRange | null>();

  constructor(label: string) {
    this.#label = label;
  }

  /** How many values are kept, at most 256. */
  get size(): number {
    return this.#known.size;
  }

  /** @returns undefined without the label, null when it holds no range */
  of({ labels }: Endpoint): ContextLengthRange | null | undefined {
    const text = labelOf(labels, this.#label);
    if (text === undefined) return undefined;
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    const range = parseRange(text);
    if (this.#known.size >= MAX_KEPT) this.#known.clear();
    this.#known.set(text, range);
    return range;
  }
}

/** `min-max` in whole tokens, such as `0-8192` (scheduling 3.9.4). */
function parseRange(text: string): ContextLengthRange | null {
  const [, from, to] = /^\s*(\d{1,15})\s*-\s*(\d{1,15})\s*$/.exec(text) ?? [];
  const [min, max] = [Number(from), Number(to)];
  return min <= max ? { min, max } : null;
}
