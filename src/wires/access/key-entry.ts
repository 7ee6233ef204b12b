import { z } from "zod";
import type { Document } from "../../base/document/document.ts";
import { check, invalid, type Violation } from "../../base/document/validate.ts";
import { KEY_HASH, KEY_ID } from "./key-text.ts";

/** The largest keys file, bytes. */
export const MAX_KEYS_BYTES = 2 * 1024 * 1024;
/** The most keys of a file, revoked ones included: reading so many stops the gateway for about 0.3 s. */
const MAX_KEYS = 2_000;
/** The most models that a key or a token lists. */
export const MAX_MODELS = 1000;
/** The most characters of a name, of a model, of a fairness ID. */
export const MAX_TEXT = 256;
/** Priorities are 32-bit integers, as in the API objects. */
const LEAST = -(2 ** 31);
const MOST = 2 ** 31 - 1;

const EXAMPLE = "2027-01-31T12:00:00Z";
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/;

/** A moment, as Unix milliseconds. @returns undefined for another text */
export function timeIn(text: string): number | undefined {
  const ms = TIME.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}

const time = z.string(`expected a time such as "${EXAMPLE}"`).transform((text, context) => {
  const ms = timeIn(text);
  if (ms !== undefined) return ms;
  context.addIssue({ code: "custom", message: `expected a time such as "${EXAMPLE}"` });
  return z.NEVER;
});
const line = z
  .string()
  .min(1)
  .max(MAX_TEXT)
  .regex(/^[^\p{Cc}]+$/u, "must not have control characters");
const hash = z.string().regex(KEY_HASH, "expected `sha256:` and 64 hex digits, as `sluice keys add` writes them");
export const priority = z.int().min(LEAST).max(MOST);

/** One key of the file. */
const KeyEntry = z.strictObject({
  id: z.string().regex(KEY_ID, "expected 12 lower-case letters and digits, as `sluice keys add` writes them"),
  name: line.describe("The name of the key, also in logs and metrics; unique."),
  hash: hash.describe("SHA-256 of the key."),
  models: z
    .array(line.refine((name) => name !== "*", "is not a model name here; leave `models` out to allow every model"))
    .min(1)
    .max(MAX_MODELS)
    .optional()
    .describe("Models that the key may use, each adapter by its own name; absent = every model."),
  objective: line.optional().describe("The InferenceObjective of the key's requests."),
  priority: priority.optional().describe("The priority of the key's requests, in place of an objective."),
  fairnessId: line.optional().describe("The flow of the key's requests; default: the name of the key."),
  choosesFlow: z
    .boolean()
    .default(false)
    .describe("Whether the gateway obeys the objective and fairness headers of the client."),
  background: z
    .boolean()
    .default(false)
    .describe(
      "Whether the key's requests use only the room that other requests leave, as the lines of batches do; their priority is then -1 by default.",
    ),
  createdAt: time.optional(),
  expires: time
    .optional()
    .describe("The time when the key expires and the gateway begins to refuse it; absent = never."),
  revoked: time.optional().describe("The time at which the key was revoked; the gateway refuses a revoked key."),
  previous: z
    .strictObject({ hash, until: time })
    .optional()
    .describe("The secret before the last rotation, and the time until which the gateway accepts that secret."),
});
export type KeyEntry = z.output<typeof KeyEntry>;

const KeysFile = z.strictObject({ keys: z.array(KeyEntry).max(MAX_KEYS).nullable().default([]) });

/**
 * The keys in a document; an empty file has none.
 * @throws SluiceError DOCUMENT_INVALID
 */
export function keysIn(document: Document): readonly KeyEntry[] {
  const violations: Violation[] = [];
  const keys = check(document.value ?? {}, KeysFile, [], violations)?.output.keys ?? [];
  const seen = { id: new Map<string, number>(), name: new Map<string, number>() };
  for (const [i, entry] of keys.entries()) {
    for (const member of ["id", "name"] as const) {
      const first = seen[member].get(entry[member]);
      if (first === undefined) seen[member].set(entry[member], i);
      else {
        const { line } = document.positionOf(["keys", first, member]);
        violations.push({ path: ["keys", i, member], problem: `line ${line} has the same ${member}` });
      }
    }
    if (entry.objective !== undefined && entry.priority !== undefined)
      violations.push({ path: ["keys", i, "priority"], problem: "give `objective` or `priority`, not both" });
  }
  if (violations.length > 0) throw invalid(document, violations, "keys file");
  return keys;
}
