import { SluiceError } from "../../base/inference/errors.ts";
import type { Explanation } from "../../picker/decisions/explain.ts";
import { type AdminAccess, askAdmin } from "./explain-client.ts";

/** Which decision is asked for: its number or its request's id, or the newest one. */
export type WhichDecision = { readonly id: string } | "newest";

/**
 * A decision of a running process, explained.
 * @throws SluiceError DECISION_UNKNOWN, and what `askAdmin` throws
 */
export async function explainedDecision(access: AdminAccess, which: WhichDecision): Promise<Explanation> {
  const { value } = await askAboutDecision(access, which, "");
  if (!isExplanation(value))
    throw new SluiceError(
      "ADMIN_FOREIGN",
      "the answer is no explanation of a decision; is it a sluice of another version?",
    );
  return value;
}

/**
 * The full record of a decision of a running process, as JSON that can be replayed.
 * @throws SluiceError DECISION_UNKNOWN, and what `askAdmin` throws
 */
export async function fullDecision(access: AdminAccess, which: WhichDecision): Promise<string> {
  return (await askAboutDecision(access, which, "?full=1")).text;
}

/**
 * The full records of all decisions of which a running process has kept everything, as JSON lines, oldest first.
 * @throws SluiceError DECISION_UNKNOWN, and what `askAdmin` throws
 */
export async function fullDecisions(access: AdminAccess): Promise<string> {
  const { value, text } = await askAdmin(access, "/debug/decisions?full=1");
  // Other versions answer with the list without full records.
  if (!Array.isArray(value) || value.some((record) => record?.full === undefined))
    throw new SluiceError("ADMIN_FOREIGN", "the answer is no list of full records; is it a sluice of another version?");
  if (value.length > 0) return text;
  throw new SluiceError(
    "DECISION_UNKNOWN",
    "no decision is kept in full: one of every so many is (--full-records-every), and those whose request asks with x-sluice-explain: 1 where --decision-header is on",
  );
}

async function askAboutDecision(
  access: AdminAccess,
  which: WhichDecision,
  query: string,
): Promise<{ readonly value: unknown; readonly text: string }> {
  const id = which === "newest" ? await newest(access) : which.id;
  const { status, value, text } = await askAdmin(access, `/debug/decisions/${encodeURIComponent(id)}${query}`);
  if (status === 404) {
    const { error } = value as { readonly error?: unknown };
    throw new SluiceError("DECISION_UNKNOWN", typeof error === "string" ? error : `no decision ${id}`);
  }
  return { value, text };
}

async function newest(access: AdminAccess): Promise<string> {
  const { value } = await askAdmin(access, "/debug/decisions");
  const sequence: unknown = Array.isArray(value) ? value[0]?.sequence : undefined;
  if (typeof sequence === "number") return String(sequence);
  throw new SluiceError("DECISION_UNKNOWN", "there is no decision yet");
}

/** Whether it has what is printed of it. */
function isExplanation(value: unknown): value is Explanation {
  if (typeof value !== "object" || value === null) return false;
  const { sentence, refusal, candidates, filters, notes, others } = value as Partial<Explanation>;
  const lists = [candidates, filters, notes, others];
  return typeof sentence === "string" && refusal !== undefined && lists.every((list) => Array.isArray(list));
}
