import { grouped } from "../../base/document/words.ts";
import type { Spread } from "./result.ts";

/** Shown in place of a missing figure. */
export const NO_FIGURE = "-";

/** The kind of a figure, which decides its format. */
export type FigureKind = "time" | "count" | "share" | "part" | "load" | "ratio";

/** A figure over seeds: its median with the unit, and its range in the same unit; "" when all texts are the same. */
export interface SpreadText {
  readonly median: string;
  readonly range: string;
}

/** A figure in a unit that fits its median, so its two lines are easy to compare. */
export function spreadText(given: Spread, figure: FigureKind): SpreadText {
  const typical = [given.median, given.max, given.min].find(Number.isFinite);
  if (typical === undefined) return { median: NO_FIGURE, range: "" };
  const { scale, digits, unit } = UNITS[figure](typical);
  const text = (value: number): string => (Number.isFinite(value) ? grouped(value * scale, digits) : "?");
  const median = Number.isFinite(given.median) ? `${text(given.median)}${unit}` : NO_FIGURE;
  const [least, most] = [text(given.min), text(given.max)];
  return { median, range: least === most ? "" : `${least}-${most}` };
}

/** One figure without a spread. */
export function figureText(value: number, figure: FigureKind): string {
  return spreadText({ min: value, median: value, max: value }, figure).median;
}

interface Unit {
  /** Factor for the value. */
  readonly scale: number;
  /** Digits after the point. */
  readonly digits: number;
  readonly unit: string;
}

const UNITS: Readonly<Record<FigureKind, (typical: number) => Unit>> = {
  /** From milliseconds. */
  time(ms) {
    if (ms < 999.5) return { scale: 1, digits: 0, unit: " ms" };
    return { scale: 1 / 1000, digits: ms < 9995 ? 2 : ms < 99_950 ? 1 : 0, unit: " s" };
  },
  count: () => ({ scale: 1, digits: 0, unit: "" }),
  share: () => ({ scale: 100, digits: 0, unit: " %" }),
  /** A small share. */
  part: () => ({ scale: 100, digits: 1, unit: " %" }),
  load: (value) => ({ scale: 1, digits: value < 99.995 ? 2 : 0, unit: "" }),
  ratio: (value) => ({ scale: 1, digits: value < 0.095 ? 3 : value < 0.95 ? 2 : value < 9.95 ? 1 : 0, unit: "x" }),
};

/** Words in lines of at most `width` characters; a longer word has its own line. */
export function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const longer = lines.length === 0 ? word : `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && longer.length <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** A sentence of a list, as lines. */
export function bullet(text: string, width: number): string[] {
  return wrapped(text, width - 2).map((line, at) => `${at === 0 ? "* " : "  "}${line}`);
}
