import type { Path } from "../../base/document/document.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import { check, type Violation } from "../../base/document/validate.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { GateDefinition, GateSpec, MetricSourceDefinition } from "../../base/plugin/gate.ts";

/** What a check of gates goes by. */
export interface GateCheck {
  readonly definitions: readonly GateDefinition[];
  readonly sources: readonly MetricSourceDefinition[];
  /** `--prometheus-url`; undefined when it is not set. */
  readonly prometheusUrl: string | undefined;
  /** An unknown type is no fault: `--allow-unknown-gates`, or a module that is not loaded yet may have it. */
  readonly allowUnknown: boolean;
}

/** Gates inside gates inside gates: more than anybody writes. */
const MAX_DEPTH = 16;

/**
 * Returns all faults of a gate and of the gates and metric sources in it, without making any of them: it connects to nothing.
 * Paths begin at the owner of the gate, with `gate_type` or `gate_params`.
 */
export function gateFaults({ type, parameters }: GateSpec, how: GateCheck): readonly Violation[] {
  const faults: Violation[] = [];
  checkPart("gate", { type, parameters, typePath: ["gate_type"], parametersPath: ["gate_params"] }, how, faults, 0);
  return faults;
}

interface Part extends GateSpec {
  readonly typePath: Path;
  readonly parametersPath: Path;
}

function checkPart(kind: "gate" | "metric-source", part: Part, how: GateCheck, into: Violation[], depth: number): void {
  const { type, parameters, typePath, parametersPath } = part;
  const all: readonly (GateDefinition | MetricSourceDefinition)[] = kind === "gate" ? how.definitions : how.sources;
  const definition = all.find((one) => one.type === type);
  if (definition === undefined) {
    if (how.allowUnknown) return;
    const what = kind === "gate" ? "gate type" : "metric source";
    const types = all.map((one) => one.type);
    const hint = didYouMean(type, types) || `; the known types are ${types.join(", ")}`;
    into.push({ path: typePath, problem: `${what} \`${type.slice(0, 80)}\` is not known${hint}` });
    return;
  }
  const parsed = check(parameters, definition.parameters, [...parametersPath], into);
  if (parsed === undefined) return;
  try {
    definition.verify?.(parsed.output, { prometheusUrl: how.prometheusUrl });
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    const [, key, problem] = /^(\w+): ([\s\S]*)$/.exec(error.message) ?? [];
    const isKey = key !== undefined && Object.hasOwn(parsed.output as object, key);
    into.push({
      path: isKey ? [...parametersPath, key] : parametersPath,
      problem: isKey ? problem! : messageOf(error),
    });
  }
  if (depth === MAX_DEPTH) {
    into.push({ path: parametersPath, problem: `gates are nested more than ${MAX_DEPTH} levels deep` });
    return;
  }
  for (const inner of definition.kind === "gate" ? (definition.parts?.(parsed.output) ?? []) : [])
    checkPart(
      inner.kind,
      {
        ...{ type: inner.type, parameters: inner.parameters },
        typePath: [...parametersPath, ...inner.typePath],
        parametersPath: [...parametersPath, ...inner.parametersPath],
      },
      how,
      into,
      depth + 1,
    );
}
