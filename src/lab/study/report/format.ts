/** What a figure is counted in. */
export type Unit = "ms" | "tokens/s" | "share" | "ratio" | "count" | "tokens";

/** Shown where there is no number, for example the TTFT of a run in which nothing finished. */
export const NO_NUMBER = "–";

const small = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 3 });
const large = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

/** Three digits below 1,000, all of them from there on. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return NO_NUMBER;
  return Math.abs(value) < 1000 ? small.format(value) : large.format(value);
}

/** A figure for people, with its unit where it has one. */
export function formatted(value: number, unit: Unit): string {
  if (!Number.isFinite(value)) return NO_NUMBER;
  switch (unit) {
    case "ms":
      return value < 1000 ? `${number(value)} ms` : `${number(value / 1000)} s`;
    case "share":
      return `${number(value * 100)} %`;
    case "ratio":
      return value.toFixed(2);
    default:
      return number(value);
  }
}

/** How much better the better one is, for a sentence. @param factor worse by better, >= 1: 142x from 2 on, 4 % below */
export function advantage(factor: number): string {
  if (factor >= 2) return `${factor >= 10 ? large.format(factor) : factor.toFixed(1)}x`;
  return `${Math.round((factor - 1) * 100)} %`;
}

/** Two figures that differ by less are called equal: 1 %. */
const SAME = 1.01;

/** How one figure stands to another. */
export interface Standing {
  /** False where they are equal. */
  readonly ahead: boolean;
  readonly equal: boolean;
  /** Worse by better, >= 1. */
  readonly factor: number;
}

/** @returns undefined where one of the two is no positive number, unless they are the same */
export function standing(one: number, other: number, better: "less" | "more"): Standing | undefined {
  if (one === other) return { ahead: false, equal: true, factor: 1 };
  if (!(one > 0 && other > 0 && Number.isFinite(one) && Number.isFinite(other))) return undefined;
  const factor = Math.max(one, other) / Math.min(one, other);
  const equal = factor < SAME;
  return { ahead: !equal && (better === "less" ? one < other : one > other), equal, factor };
}
