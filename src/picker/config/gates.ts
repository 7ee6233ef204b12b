import type { Path } from "../../base/document/document.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import type { Violation } from "../../base/document/validate.ts";

/** The effect of a feature gate of some release here (scheduling 4.5, appendix C). */
interface Gate {
  /** Values that change nothing and need no warning. */
  readonly silent: readonly boolean[];
  /** The reason why any other value has no effect; undefined = it has one. */
  readonly because: string | undefined;
}

const ALWAYS_ON = "this feature is always on; remove the gate";

const GATES: ReadonlyMap<string, Gate> = new Map([
  ["flowControl", { silent: [false], because: undefined }],
  ["haPopulateNonLeaderDatastore", { silent: [true], because: "every replica knows all endpoints" }],
  ["dataLayer", { silent: [], because: ALWAYS_ON }],
  ["prepareDataPlugins", { silent: [], because: ALWAYS_ON }],
  ["enableLegacyMetrics", { silent: [false], because: "there is only one way to read metrics; remove the gate" }],
]);

/** Gates that no current release knows. */
export const RETIRED_GATES: ReadonlySet<string> = new Set(["dataLayer", "prepareDataPlugins", "enableLegacyMetrics"]);

/** Returns the name of a gate, without the value that may follow it. */
export function gateName(text: string): string {
  return text.split("=", 1)[0]!.trim();
}

/** Truth values as the reference's flag library reads them. */
const VALUES: ReadonlyMap<string, boolean> = new Map([
  ...["1", "t", "T", "TRUE", "true", "True"].map((text) => [text, true] as const),
  ...["0", "f", "F", "FALSE", "false", "False"].map((text) => [text, false] as const),
]);

/**
 * Checks `featureGates`, each `name`, `name=true` or `name=false`.
 * @param into receives gates that do not exist or whose value is no truth value
 * @param warn called for gates without effect
 * @returns the gates that the file sets, and whether they are on: one entry that turns a gate on suffices
 */
export function checkGates(
  gates: readonly string[],
  into: Violation[],
  warn: (path: Path, text: string) => void,
): ReadonlyMap<string, boolean> {
  const set = new Map<string, boolean>();
  gates.forEach((text, at) => {
    const path = ["featureGates", at];
    const name = gateName(text);
    const gate = GATES.get(name);
    if (gate === undefined) {
      const known = [...GATES.keys()];
      const hint = didYouMean(name, known) || `; the known gates are ${known.join(", ")}`;
      into.push({ path, problem: `feature gate ${name} is unknown or unregistered${hint}` });
      return;
    }
    const given = text.includes("=") ? text.slice(text.indexOf("=") + 1).trim() : "true";
    const value = VALUES.get(given);
    if (value !== undefined) set.set(name, value || set.get(name) === true);
    if (value === undefined) {
      const remedy = `write ${name}=true or ${name}=false`;
      into.push({ path, problem: `${given} is not a valid value for the feature gate ${name}; ${remedy}` });
    } else if (gate.because !== undefined && !gate.silent.includes(value))
      warn(path, `feature gate ${name} has no effect: ${gate.because}`);
  });
  return set;
}
