import { SeededRandom } from "../../src/base/clock/random.ts";
import { VirtualClock } from "../../src/base/clock/virtual.ts";
import type { PluginContext } from "../../src/base/plugin/kinds.ts";
import { silentLogger } from "../../src/base/telemetry/logger.ts";

/**
 * What a plugin instance is given in a test.
 * @param fake instead of a clock that stands still, chance that is always the same, and no other plugins
 */
export function pluginContextOf(name: string, fake: Partial<PluginContext> = {}): PluginContext {
  return {
    name,
    clock: new VirtualClock(),
    random: new SeededRandom(1),
    log: silentLogger,
    plugin(wanted) {
      throw new Error(`no plugin ${wanted} here`);
    },
    ...fake,
  };
}
