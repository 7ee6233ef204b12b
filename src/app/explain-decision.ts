import { SluiceError } from "../inference/errors.ts";
import type { Explanation } from "../scheduling/explain.ts";
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
