/** How bad a finding is. */
export type Level = "ok" | "warn" | "fail";

/** The result of one check about one thing. */
export interface Finding {
  /** Name in the table of checks. */
  readonly check: string;
  readonly level: Level;
  /** What was seen, and what it means. */
  readonly says: string;
  /** What to do; absent when nothing is to be done. */
  readonly todo?: string;
}

/** What a check says: its name is added by the table. */
export type Said = Omit<Finding, "check">;

/** A check that found nothing to do. @param says what was seen, a sentence without an end mark */
export function ok(says: string): Said {
  return { level: "ok", says };
}

/** A check that found something to improve. @param todo what to do about it */
export function warn(says: string, todo: string): Said {
  return { level: "warn", says, todo };
}

/** A check that failed: the command ends with exit status 1. @param todo what to do about it */
export function fail(says: string, todo: string): Said {
  return { level: "fail", says, todo };
}

/** The exit status: 1 when anything fails. */
export function exitStatus(findings: readonly Finding[]): 0 | 1 {
  return findings.some(({ level }) => level === "fail") ? 1 : 0;
}
