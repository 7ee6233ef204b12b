import { pathToFileURL } from "node:url";
import { messageOf, SluiceError } from "../inference/errors.ts";
import type { GateDefinition, MetricSourceDefinition } from "../plugin/gate.ts";

/** Gates and metric sources of the user. */
export interface DispatchPlugins {
  readonly gates: readonly GateDefinition[];
  readonly sources: readonly MetricSourceDefinition[];
}

/**
 * Loads modules that export gates (`defineGate`) or metric sources (`defineMetricSource`), by whatever name.
 * @param paths absolute
 * @throws SluiceError PLUGIN_LOAD naming the file
 */
export async function loadDispatchPlugins(paths: readonly string[]): Promise<DispatchPlugins> {
  const gates: GateDefinition[] = [];
  const sources: MetricSourceDefinition[] = [];
  for (const path of paths) {
    let module: Readonly<Record<string, unknown>>;
    try {
      module = await import(pathToFileURL(path).href);
    } catch (cause) {
      throw new SluiceError("PLUGIN_LOAD", `plugin ${path} cannot be loaded: ${messageOf(cause)}`, { cause });
    }
    let found = 0;
    for (const value of Object.values(module)) {
      const kind = (value as { kind?: unknown } | undefined)?.kind;
      if (kind === "gate") gates.push(value as GateDefinition);
      else if (kind === "metric-source") sources.push(value as MetricSourceDefinition);
      else continue;
      found++;
    }
    if (found === 0)
      throw new SluiceError(
        "PLUGIN_LOAD",
        `plugin ${path} exports nothing made by defineGate or defineMetricSource; export what they return`,
      );
  }
  return { gates, sources };
}
