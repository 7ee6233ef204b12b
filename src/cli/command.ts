import { Command } from "commander";

/** A command that reports its errors to `main.ts` instead of ending the process. */
export function command(name: string, description: string): Command {
  return new Command(name).description(description).showHelpAfterError(`(see sluice ${name} --help)`).exitOverride();
}

/** For options that may be given several times: collects the values in order. */
export function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}
