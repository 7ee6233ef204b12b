import { SluiceError } from "../../base/inference/errors.ts";
import type { Explanation } from "../../picker/decisions/explain.ts";
import { FULL_RECORDS_HOW } from "../../picker/decisions/explain-words.ts";
import { type AdminAccess, askAdmin } from "../common/admin-client.ts";

/** The decision to explain: its number, the id of its request, or the newest one. */
export type WhichDecision = { readonly id: string } | "newest";

/**
 * A decision of a running process, explained.
 * @throws SluiceError DECISION_UNKNOWN, and the errors of `askAdmin`
 */
export async function explainedDecision(access: AdminAccess, which: WhichDecision): Promise<Explanation> {
  const { value } = await askAboutDecision(access, which, "");
  if (!isExplanation(value))
    throw new SluiceError(
      "ADMIN_FOREIGN",
      "the answer is not the explanation of a decision; use the same version of sluice as the process",
    );
  return value;
}

/**
 * The full record of a decision of a running process, as JSON for a replay.
 * @throws SluiceError DECISION_UNKNOWN, and the errors of `askAdmin`
 */
export async function fullDecision(access: AdminAccess, which: WhichDecision): Promise<string> {
  return (await askAboutDecision(access, which, "?full=1")).text;
}

/**
 * All full records that a running process has kept, as JSON lines, oldest first.
 * @throws SluiceError DECISION_UNKNOWN, and the errors of `askAdmin`
 */
export async function fullDecisions(access: AdminAccess): Promise<string> {
  const { value, text } = await askAdmin(access, "/debug/decisions?full=1");
  // Other versions answer with a list without full records.
  if (!Array.isArray(value) || value.some((record) => record?.full === undefined))
    throw new SluiceError(
      "ADMIN_FOREIGN",
      "the answer is not a list of full records; use the same version of sluice as the process",
    );
  if (value.length > 0) return text;
  throw new SluiceError("DECISION_UNKNOWN", `no decision has a full record. ${FULL_RECORDS_HOW}`);
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
  throw new SluiceError("DECISION_UNKNOWN", "the process has made no decision yet; send a request first");
}

/** Whether the value has the members that `explanationText` prints. */
function isExplanation(value: unknown): value is Explanation {
  if (typeof value !== "object" || value === null) return false;
  const { sentence, refusal, candidates, filters, notes, others } = value as Partial<Explanation>;
  const lists = [candidates, filters, notes, others];
  return typeof sentence === "string" && refusal !== undefined && lists.every((list) => Array.isArray(list));
}
