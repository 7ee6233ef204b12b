import { Command } from "commander";
import { parseDuration } from "../../base/document/duration.ts";
import { SluiceError } from "../../base/inference/errors.ts";

/**
 * A command that reports its errors to `main.ts` instead of ending the process. @param of name of the command that contains
 * this one
 */
export function command(name: string, description: string, of = ""): Command {
  const called = of === "" ? name : `${of} ${name}`;
  return new Command(name).description(description).showHelpAfterError(`(see sluice ${called} --help)`).exitOverride();
}

/** The streams to which a command writes. */
export interface Output {
  out(text: string): void;
  err(text: string): void;
}

export const STANDARD: Output = {
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
};

/** For repeatable options: collects the values in order. */
export function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}

/** @throws SluiceError FLAG_VALUE */
export function wholeNumber(text: string, flag: string, least: number, most: number): number {
  const value = Number(text);
  if (!/^\s*\d+\s*$/.test(text) || value < least || value > most)
    throw new SluiceError("FLAG_VALUE", `${flag} is "${text}"; give a whole number from ${least} to ${most}`);
  return value;
}

/** The duration of an option, in milliseconds. @throws SluiceError FLAG_VALUE */
export function durationOf(text: string, flag: string, least: number): number {
  let ms = Number.NaN;
  try {
    ms = parseDuration(text);
  } catch {
    // The error below reports it.
  }
  if (ms >= least) return ms;
  throw new SluiceError("FLAG_VALUE", `${flag} is "${text}"; give a duration such as 10s, 90m or 24h`);
}

/** The value of a flag that is on by default. @throws SluiceError FLAG_VALUE */
export function trueOrFalse(text: string, flag: string): boolean {
  if (text !== "true" && text !== "false")
    throw new SluiceError("FLAG_VALUE", `${flag} is "${text}"; give true or false`);
  return text === "true";
}
