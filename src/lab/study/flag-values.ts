import { parseDuration } from "../../base/document/duration.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import { SluiceError } from "../../base/inference/errors.ts";

/** The most characters of the input that a message repeats. */
const MAX_REPEATED = 100;

/** @throws SluiceError FLAG_VALUE */
export function wholeFlag(text: string, flag: string, least: number, most: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text.trim()) || value < least || value > most)
    throw wrong(flag, text, `give a whole number from ${least} to ${most}`);
  return value;
}

/** The legal range of a time, and its description. */
export interface TimeRange {
  /** Milliseconds. */
  readonly least: number;
  readonly most: number;
  /** Such as `a time from 1s to 1h, for example 45s`. */
  readonly wanted: string;
}

/** @returns milliseconds; undefined when the flag is absent @throws SluiceError FLAG_VALUE */
export function timeFlag(
  text: string | undefined,
  flag: string,
  { least, most, wanted }: TimeRange,
): number | undefined {
  if (text === undefined) return undefined;
  let ms = Number.NaN;
  try {
    ms = parseDuration(text);
  } catch {
    // The error below names the legal range.
  }
  if (ms >= least && ms <= most) return ms;
  throw wrong(flag, text, `give ${wanted}`);
}

/** @param text decimal, without exponent @throws SluiceError FLAG_VALUE */
export function rateFlag(text: string, flag: string, most: number): number {
  const rate = Number(text);
  if (/^\d*\.?\d+$/.test(text) && rate >= 0.01 && rate <= most) return rate;
  throw wrong(flag, text, `give numbers from 0.01 to ${most}, for example --rate 10 20 40`);
}

/**
 * The item with that name. @param flag undefined = the name is no value of a flag @throws SluiceError FLAG_VALUE, with the
 * nearest name
 */
export function named<T extends { readonly name: string }>(
  name: string,
  noun: string,
  known: readonly T[],
  flag?: string,
): T {
  const found = known.find((one) => one.name === name);
  if (found !== undefined) return found;
  const names = known.map((one) => one.name);
  const shown = JSON.stringify(name.slice(0, MAX_REPEATED));
  const hint = didYouMean(name, names) || `; there are ${names.join(", ")}`;
  throw new SluiceError("FLAG_VALUE", `${flag === undefined ? "" : `${flag} `}${shown} is not a known ${noun}${hint}`);
}

/** Splits lists with commas. */
export function separate(texts: readonly string[]): string[] {
  return texts
    .flatMap((text) => text.split(","))
    .map((text) => text.trim())
    .filter((text) => text !== "");
}

function wrong(flag: string, text: string, remedy: string): SluiceError {
  return new SluiceError("FLAG_VALUE", `${flag} is "${text.slice(0, MAX_REPEATED)}"; ${remedy}`);
}
