import type { Clock } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { GateDefinition, MetricSourceDefinition } from "../../base/plugin/gate.ts";
import { importModule, type ModuleExports } from "../../picker/core/plugins/plugin-import.ts";

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
export async function loadDispatchPlugins(paths: readonly string[], clock: Clock): Promise<DispatchPlugins> {
  const gates: GateDefinition[] = [];
  const sources: MetricSourceDefinition[] = [];
  for (const path of paths) {
    let module: ModuleExports;
    try {
      module = await importModule(path, clock);
    } catch (cause) {
      throw new SluiceError("PLUGIN_LOAD", `plugin ${path} cannot be loaded: ${messageOf(cause)}`, { cause });
    }
    // A default export often has a name as well.
    const exported = new Set(Object.values(module));
    let found = 0;
    for (const value of exported) {
      const kind = (value as { kind?: unknown } | null | undefined)?.kind;
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
