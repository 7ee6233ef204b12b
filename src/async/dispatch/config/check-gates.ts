import { z } from "zod";
import type { Path } from "../../../base/document/document.ts";
import { type GateCheck, gateFaults } from "../../gates/check-gate.ts";
import type { ConfigDocument, Findings } from "./config-document.ts";
import { GATE_FIELDS } from "./fields.ts";

const GATED = z.object(GATE_FIELDS);

/**
 * Refuses the faults of the gates of queues or worker pools, each with its place. Connects to nothing. It reads the entries as
 * they are in the document, so that faults in other fields of an entry hide none of its gate.
 * @param at place of the list in the document
 */
export function checkGates(document: ConfigDocument, at: Path, how: GateCheck, findings: Findings): void {
  let entries: unknown = document.value;
  for (const key of at) entries = (entries as Readonly<Record<string, unknown>> | null | undefined)?.[key];
  if (!Array.isArray(entries)) return;
  entries.forEach((entry: unknown, index) => {
    // The schema of the entry reports fields with a wrong shape.
    const { gate_type: type, gate_params: parameters = {} } = GATED.safeParse(entry).data ?? {};
    if (type === undefined) return;
    for (const { path, problem } of gateFaults({ type, parameters }, how))
      findings.refuse(document, [...at, index, ...path], problem);
  });
}
