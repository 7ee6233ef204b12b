import { z } from "zod";
import type { Path } from "../../../base/document/document.ts";
import type { GateSpec } from "../../../base/plugin/gate.ts";
import type { ConfigDocument } from "./config-document.ts";
import { text } from "./fields.ts";
import type { Findings } from "./findings.ts";

type Parameters = Readonly<Record<string, unknown>>;

/** How a queue or a pool names its gate (async-processor 3.2). */
export const GATE_FIELDS = {
  gate_type: text(undefined),
  gate_params: z
    .unknown()
    .transform((value, context): Parameters => {
      const parameters = parametersOf(value);
      if (typeof parameters === "object") return parameters;
      context.addIssue({ code: "custom", message: parameters });
      return z.NEVER;
    })
    .optional(),
};

/** The parameters, or what is wrong with them. They may be secrets: no message repeats them. */
function parametersOf(value: unknown): Parameters | string {
  if (value === undefined || value === null || value === "") return {};
  let parameters: unknown = value;
  if (typeof value === "string") {
    try {
      parameters = JSON.parse(value) as unknown;
    } catch {
      return "must be a mapping, or one as JSON text; this text is not JSON";
    }
  }
  if (typeof parameters === "object" && parameters !== null && !Array.isArray(parameters))
    return parameters as Parameters;
  return `must be a mapping, or one as JSON text, got ${Array.isArray(parameters) ? "a list" : `a ${typeof parameters}`}`;
}

/**
 * The gate of an entry; undefined = always open. Whether the type exists is the gate factory's to know.
 * @param path of the entry
 */
export function gateOf(
  entry: { readonly gate_type?: string | undefined; readonly gate_params?: Parameters | undefined },
  document: ConfigDocument,
  path: Path,
  findings: Findings,
): GateSpec | undefined {
  const parameters = entry.gate_params ?? {};
  if (entry.gate_type !== undefined) return { type: entry.gate_type, parameters };
  // A mistyped `gate_type` would take all throttling away (async-processor H-47).
  if (Object.keys(parameters).length > 0)
    findings.refuse(document, [...path, "gate_params"], "parameters of no gate: `gate_type` is missing beside them");
  return undefined;
}
