import { redacted, withoutKeys } from "../../../base/inference/secrets.ts";

/** The process itself, for `hello` and the configuration. */
export const PROCESS = {
  /** @param wall the present time in Unix milliseconds @returns the start of the process */
  startedAt: (wall: number): number => Math.round(wall - process.uptime() * 1000),
  node: process.version,
  pid: process.pid,
};

/** A flag whose value is a secret; the flag of a file that holds one is none. */
const SECRET_FLAG = /^--?[\w.-]*(password|passwd|secret|token|credential|authorization|api-?key)s?(=|$)/i;
const MAX_ARGS = 256;

/** A command line without secrets. */
export function shownArgs(args: readonly string[]): string[] {
  return args.slice(0, MAX_ARGS).map((arg, at) => {
    const flag = SECRET_FLAG.exec(arg);
    if (flag?.[2] === "=") return `${arg.slice(0, arg.indexOf("="))}=REDACTED`;
    const before = args[at - 1] ?? "";
    if (!arg.startsWith("-") && SECRET_FLAG.exec(before)?.[2] === "") return "REDACTED";
    return withoutKeys(String(redacted(arg)));
  });
}

/** A number for JSON, with four significant places where it has more; null for NaN and the infinities. */
export function shown(value: number): number | null {
  if (!Number.isFinite(value)) return null;
  return Number.isInteger(value) ? value : Number(value.toPrecision(4));
}
