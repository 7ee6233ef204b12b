import { isSecretName, REDACTED, redacted, withoutKeys } from "../../../base/inference/secrets.ts";

/** The process itself, for `hello` and the configuration. */
export const PROCESS = {
  /** @param wall the present time in Unix milliseconds @returns the start of the process */
  startedAt: (wall: number): number => Math.round(wall - process.uptime() * 1000),
  node: process.version,
  pid: process.pid,
};

const FLAG = /^--?([\w.-]+)(=|$)/;
const MAX_ARGS = 256;

/** A command line without secrets. @param secret names of flags that are secrets, whatever their name says */
export function shownArgs(args: readonly string[], secret: ReadonlySet<string> = new Set()): string[] {
  /** What follows the name of a secret flag: `=` or nothing; undefined = the argument is no such flag. */
  const afterSecret = (arg: string): string | undefined => {
    const [, name = "", after] = FLAG.exec(arg) ?? [];
    return isSecretName(name) || secret.has(name) ? after : undefined;
  };
  return args.slice(0, MAX_ARGS).map((arg, at) => {
    if (afterSecret(arg) === "=") return `${arg.slice(0, arg.indexOf("="))}=${REDACTED}`;
    if (!arg.startsWith("-") && afterSecret(args[at - 1] ?? "") === "") return REDACTED;
    return withoutKeys(String(redacted(arg)));
  });
}

/** A number for JSON, with four significant places where it has more; null for NaN and the infinities. */
export function shown(value: number): number | null {
  if (!Number.isFinite(value)) return null;
  return Number.isInteger(value) ? value : Number(value.toPrecision(4));
}
