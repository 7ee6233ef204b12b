import { messageOf } from "../../base/inference/errors.ts";
import type { PluginState } from "../../picker/core/inference-core.ts";

/** One plugin in `/debug/plugins/state` (scheduling 9.2): with its state, or why there is none. */
interface ShownState {
  readonly name: string;
  readonly type: string;
  readonly state?: unknown;
  readonly message?: string;
}

/** The longest state shown, in characters of JSON. */
const MAX_STATE = 1024 * 1024;

/** What plugins say of themselves, by instance name; where one name stands for two, the one with a state is shown. */
export function pluginStates(plugins: Iterable<PluginState>): Readonly<Record<string, ShownState>> {
  const shown = new Map<string, ShownState>();
  for (const { name, type, state } of plugins)
    if (shown.get(name)?.state === undefined) shown.set(name, { name, type, ...told(state) });
  return Object.fromEntries(shown);
}

function told(state: PluginState["state"]): Pick<ShownState, "state" | "message"> {
  if (state === undefined) return { message: "tells nothing of its state" };
  try {
    const json = JSON.stringify(state());
    if (json === undefined) return { message: "has no state at present" };
    if (json.length > MAX_STATE) return { message: `its state is too long to be shown: ${json.length} characters` };
    return { state: JSON.parse(json) };
  } catch (error) {
    return { message: `cannot tell its state: ${messageOf(error)}` };
  }
}
