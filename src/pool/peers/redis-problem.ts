import { messageOf, SluiceError } from "../../base/inference/errors.ts";

/** What keeps the replicas from sharing. "connecting" is the time before the first answer. */
export const STORE_PROBLEMS = [
  "connecting",
  "away",
  "slow",
  "full",
  "read-only",
  "forbidden",
  "wrong-type",
  "refused",
] as const;
export type StoreProblem = (typeof STORE_PROBLEMS)[number];

/** The words by which the texts of Redis, Valkey and of the connection tell each problem; the first match counts. */
const WORDS: readonly (readonly [RegExp, StoreProblem])[] = [
  [/\b(OOM|MISCONF)\b/, "full"],
  [/\bREADONLY\b/, "read-only"],
  [/\b(NOPERM|NOAUTH|WRONGPASS)\b/, "forbidden"],
  [/\bWRONGTYPE\b/, "wrong-type"],
  [/\b(no answer within|does not answer|ETIMEDOUT)\b/i, "slow"],
  // Also where the server refuses the first commands of a connection.
  [/\bunknown (sub)?command\b|\bwrong number of arguments\b/i, "refused"],
];

/** The kind of an error that a command got, or that ended a connection. */
export function storeProblem(error: unknown): StoreProblem {
  const text = messageOf(error);
  const known = WORDS.find(([words]) => words.test(text));
  if (known !== undefined) return known[1];
  return error instanceof SluiceError && error.code === "REDIS_REFUSED" ? "refused" : "away";
}
