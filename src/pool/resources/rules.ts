import type { Path } from "../../base/document/document.ts";
import type { Violation } from "../../base/document/validate.ts";
import type { InferenceModel } from "./objects.ts";

// The rules that the API server evaluates as CEL expressions (api-resources 1.1). Each message begins with the words of
// the published rule, so that it is found by who searches for them.

/** `weights`: weights for all targets or for none. @param at where the list stands */
export function weightsAllOrNone(
  targets: readonly { readonly weight: number | undefined }[],
  at: Path,
): readonly Violation[] {
  const without = targets.findIndex(({ weight }) => weight === undefined);
  if (without < 0 || targets.every(({ weight }) => weight === undefined)) return [];
  const problem = "Weights should be set for all models, or none of the models.";
  return [{ path: at, problem: `${problem} (entry ${without + 1} has no weight)` }];
}

/** `uniquePorts`. @param at where the list stands */
export function uniquePorts(ports: readonly number[], at: Path): readonly Violation[] {
  const again = ports.find((port, index) => ports.indexOf(port) < index);
  if (again === undefined) return [];
  return [{ path: at, problem: `port number must be unique (${again} is listed again)` }];
}

/** `eppPort`: a Service needs a port. @param at where the reference stands */
export function servicePort(
  picker: { readonly kind: string; readonly port: unknown } | undefined,
  at: Path,
): readonly Violation[] {
  if (picker === undefined || picker.kind !== "Service" || picker.port !== undefined) return [];
  const problem = "port is required when kind is 'Service' or unspecified (defaults to 'Service')";
  return [{ path: at, problem: `${problem}; write for example \`port: {number: 9002}\`` }];
}

/**
 * `immutable`, the transition rule of an InferenceModel: seen when an object with the same namespace and name takes the
 * place of another.
 */
export function transitionViolations(before: InferenceModel, after: InferenceModel): readonly Violation[] {
  if (before.modelName === after.modelName) return [];
  const problem = `modelName is immutable (it was ${JSON.stringify(before.modelName)})`;
  return [
    {
      path: ["spec", "modelName"],
      problem: `${problem}; keep it, or give the object with the new modelName another metadata.name`,
    },
  ];
}
