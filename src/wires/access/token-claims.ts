import type { Caller } from "../../base/inference/caller.ts";
import { MAX_MODELS, MAX_TEXT } from "./key-entry.ts";
import type { ClaimPath, TokenSettings } from "./keys-settings.ts";

/** The claims of a token whose signature, issuer, audience and times are in order. */
export type Claims = Readonly<Record<string, unknown>>;

/**
 * The caller that the claims of a token name.
 * @returns what is wrong with them, for the client: a claim that cannot be read must not give more rights than none
 */
export function callerOf(
  claims: Claims,
  settings: Pick<TokenSettings, "issuer" | "claims" | "choosesFlow">,
): Caller | string {
  const { issuer, claims: paths, choosesFlow } = settings;
  const subject = textAt(claims, ["sub"]);
  if (subject === undefined) return `its claim \`sub\` is not a string of 1 to ${MAX_TEXT} characters`;
  const read = { name: subject, objective: undefined, fairnessId: undefined } as Record<string, string | undefined>;
  for (const member of ["name", "objective", "fairnessId"] as const) {
    const path = paths[member];
    if (path === undefined || valueAt(claims, path) === undefined) continue;
    const text = textAt(claims, path);
    if (text === undefined) return wrong(path, `is not a string of 1 to ${MAX_TEXT} characters`);
    read[member] = text;
  }
  const priority = paths.priority && valueAt(claims, paths.priority);
  if (priority !== undefined && !is32Bit(priority)) return wrong(paths.priority!, "is not a whole number of 32 bits");
  const models = paths.models && modelsAt(claims, paths.models);
  if (typeof models === "string") return models;
  return {
    id: `${issuer}#${subject}`,
    name: read.name!,
    models,
    objective: read.objective,
    priority,
    fairnessId: read.fairnessId,
    choosesFlow,
  };
}

/** Where a claim is read for models, a token without it may use none: the issuer decides, not its silence. */
function modelsAt(claims: Claims, path: ClaimPath): ReadonlySet<string> | string {
  const value = valueAt(claims, path) ?? [];
  // One text with blanks between names is how OAuth writes a scope.
  const names: unknown = typeof value === "string" ? value.split(" ").filter(Boolean) : value;
  if (Array.isArray(names) && names.length <= MAX_MODELS && names.every(isText)) return new Set(names as string[]);
  return wrong(path, `is not a list of at most ${MAX_MODELS} model names`);
}

/** The claim at a path: its first step is a whole name, since names of claims may have dots and slashes. */
function valueAt(claims: Claims, path: ClaimPath): unknown {
  let value: unknown = claims;
  for (const step of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Claims)[step];
  }
  return value ?? undefined;
}

function textAt(claims: Claims, path: ClaimPath): string | undefined {
  const value = valueAt(claims, path);
  return isText(value) ? value : undefined;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= MAX_TEXT && !/\p{Cc}/u.test(value);
}

function is32Bit(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) === ((value as number) | 0);
}

function wrong(path: ClaimPath, problem: string): string {
  return `its claim \`${path.join(".")}\` ${problem}`;
}
