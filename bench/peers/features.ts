import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** What a client of the gateway costs beyond routing: one option of `sluice gateway` each. */
export interface Feature {
  readonly flag: string;
  /** Writes what the flag needs to `folder`. @returns arguments, and a header that every request then needs */
  prepare(folder: string, main: readonly string[]): { readonly args: readonly string[]; readonly header?: string };
}

/** All features, in the order of their work in a request. */
export const FEATURES: readonly Feature[] = [
  {
    flag: "--keys",
    prepare(folder, [program, ...before]) {
      const file = join(folder, "keys.yaml");
      const args = [...before, "keys", "add", "--file", file, "--name", "bench"];
      const secret = execFileSync(program!, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
      return { args: ["--keys", file], header: `authorization: Bearer ${secret}` };
    },
  },
  {
    flag: "--limits",
    prepare(folder) {
      const file = join(folder, "limits.yaml");
      // So high that no request is refused: what counts is the counting.
      const most = 1_000_000_000;
      const rule = { key: "*", requestsPerMinute: most, tokensPerMinute: most, inFlight: most };
      writeFileSync(file, JSON.stringify({ rules: [rule] }));
      return { args: ["--limits", file] };
    },
  },
  {
    flag: "--request-log",
    prepare: (folder) => ({ args: ["--request-log", "all", "--request-log-file", join(folder, "requests.log")] }),
  },
];

/** The flags that the help text of a command offers. */
export function flagsIn(help: string): ReadonlySet<string> {
  return new Set([...help.matchAll(/^\s+(?:-\w, )?(--[a-z0-9-]+)/gm)].map((match) => match[1]!));
}

/** The features that a checkout has, and the flags of those that it lacks. */
export function featuresOf(
  help: string,
  features: readonly Feature[] = FEATURES,
): { readonly has: readonly Feature[]; readonly lacks: readonly string[] } {
  const flags = flagsIn(help);
  return {
    has: features.filter(({ flag }) => flags.has(flag)),
    lacks: features.filter(({ flag }) => !flags.has(flag)).map(({ flag }) => flag),
  };
}

/** The help text of `sluice gateway`. @param main the command line before the subcommand */
export function gatewayHelp(main: readonly string[]): string {
  return execFileSync(main[0]!, [...main.slice(1), "gateway", "--help"], { encoding: "utf8" });
}
