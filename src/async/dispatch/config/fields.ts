import { z } from "zod";
import type { Path } from "../../../base/document/document.ts";
import { isObject } from "../../../base/document/json-object.ts";
import type { GateSpec } from "../../../base/plugin/gate.ts";
import type { ConfigDocument, Findings } from "./config-document.ts";

// Fields as in the reference's files: absent, null, "" and 0 all mean the default, because Go cannot tell them apart.

/** Schema of a text. In: a string, null or absent. Out: the string; `fallback` for an empty one and for none. */
export function textField<D extends string | undefined>(fallback: D) {
  return z
    .string()
    .nullish()
    .transform((value): string | D => value || fallback);
}

export const requiredText = z.string().min(1);

/** Schema of a whole number from `least` to `most`; 0, null and absent mean `fallback`. Negative ones are refused, which the reference does not do (async-processor 5.2.1). */
export function count<D extends number | undefined>(fallback: D, { least = 1, most = 2 ** 31 - 1 } = {}) {
  return z
    .int()
    .nullish()
    .transform((value, context): number | D => {
      if (!value) return fallback;
      if (value >= least && value <= most) return value;
      context.addIssue({ code: "custom", message: `must be from ${least} to ${most}, got ${value}` });
      return z.NEVER;
    });
}

/** Schema of a boolean; null and absent mean `fallback`. */
export function bool(fallback: boolean) {
  return z
    .boolean()
    .nullish()
    .transform((value) => value ?? fallback);
}

/** Address of a gateway: absolute, because paths are joined to it. */
export const gatewayUrl = requiredText.superRefine((value, context) => {
  if (value === "" || isHttpUrl(value)) return;
  const problem = "must be an absolute URL that begins with http:// or https://, such as http://gateway:8080";
  context.addIssue({ code: "custom", message: value.includes("@") ? problem : `${problem}, got ${shown(value)}` });
});

/** Whether a text is an absolute URL with `http` or `https`. */
export function isHttpUrl(value: string): boolean {
  return /^https?:\/\//i.test(value) && URL.canParse(value);
}

function shown(value: string): string {
  return JSON.stringify(value.length <= 80 ? value : `${value.slice(0, 77)}...`);
}

type Parameters = Readonly<Record<string, unknown>>;

/** How a queue or a pool names its gate (async-processor 3.2). */
export const GATE_FIELDS = {
  gate_type: textField(undefined).describe("Type of the gate, from [gates.md](gates.md); empty = always open."),
  gate_params: z
    .unknown()
    .transform((value, context): Parameters => {
      const parameters = parametersOf(value);
      if (typeof parameters === "object") return parameters;
      context.addIssue({ code: "custom", message: parameters });
      return z.NEVER;
    })
    .optional()
    .describe("Parameters of the gate: a mapping, or the same as JSON text."),
};

/** The parameters, or the error in them. They may be secrets: no message repeats them. */
function parametersOf(value: unknown): Parameters | string {
  if (value === undefined || value === null || value === "") return {};
  let parameters: unknown = value;
  if (typeof value === "string") {
    try {
      parameters = JSON.parse(value) as unknown;
    } catch {
      return "must be a mapping, or the same as JSON text; this text is not JSON";
    }
  }
  if (isObject(parameters)) return parameters;
  return `must be a mapping, or the same as JSON text, got ${Array.isArray(parameters) ? "a list" : `a ${typeof parameters}`}`;
}

/** The gate of an entry; undefined = always open. The gate factory checks whether the type exists. @param path of the entry */
export function gateOf(
  entry: { readonly gate_type?: string | undefined; readonly gate_params?: Parameters | undefined },
  document: ConfigDocument,
  path: Path,
  findings: Findings,
): GateSpec | undefined {
  const parameters = entry.gate_params ?? {};
  if (entry.gate_type !== undefined) return { type: entry.gate_type, parameters };
  // A mistyped `gate_type` would remove all throttling (async-processor H-47).
  if (Object.keys(parameters).length > 0)
    findings.refuse(document, [...path, "gate_params"], "is set, but `gate_type` is missing; add `gate_type`");
  return undefined;
}
