import { SeededRandom } from "../../../src/base/clock/random.ts";
import { VirtualClock } from "../../../src/base/clock/virtual.ts";
import { messageOf } from "../../../src/base/inference/errors.ts";
import { type PluginDescription, PluginInstances } from "../../../src/base/plugin/instances.ts";
import type { PluginDefinition, PluginKind } from "../../../src/base/plugin/kinds.ts";
import { PluginRegistry } from "../../../src/base/plugin/registry.ts";
import { silentLogger } from "../../../src/base/telemetry/logger.ts";
import { type ReplayOutcome, replay } from "../../../src/picker/decisions/replay.ts";
import { buildPlan, type MemberDescription } from "../../../src/picker/scheduling/build.ts";
import { SCHEDULING_PLUGINS } from "../../../src/picker/scheduling/plugins/index.ts";
import type { PickerConfigFeed } from "../../../src/wires/admin/feed/config.ts";
import type { RecordJson } from "../../../src/wires/admin/feed/decisions.ts";
import { recordIn } from "./record.ts";

const REGISTRY = new PluginRegistry(SCHEDULING_PLUGINS);

/** The kinds of the members of a profile that the page can change. */
export type EditedKind = "filter" | "scorer" | "picker";

/** A member of a profile, as it is edited. */
export interface EditedMember {
  readonly name: string;
  readonly type: string;
  readonly kind: EditedKind;
  /** Left out of the replay when false. */
  readonly isOn: boolean;
  /** Of a scorer. */
  readonly weight: number;
  /** JSON. */
  readonly parameters: string;
}

export interface EditedProfile {
  readonly name: string;
  readonly members: readonly EditedMember[];
}

/** The plugins of a configuration, with the parameters that the process has read. */
export type Plugins = PickerConfigFeed["plugins"];
type PluginRow = Plugins[number];

/** The profiles of a configuration, ready to edit. */
export function editable({ plugins, profiles }: Pick<PickerConfigFeed, "plugins" | "profiles">): EditedProfile[] {
  const byName = new Map(plugins.map((plugin) => [plugin.name, plugin]));
  const member = (name: string, kind: EditedKind, weight: number): EditedMember => {
    const { type = name, parameters = "{}" } = byName.get(name) ?? {};
    return { name, type, kind, isOn: true, weight, parameters };
  };
  return profiles.map(({ name, filters, scorers, picker }) => ({
    name,
    members: [
      ...filters.map((filter) => member(filter, "filter", 0)),
      ...scorers.map((scorer) => member(scorer.name, "scorer", scorer.weight)),
      member(picker, "picker", 0),
    ],
  }));
}

/** The filter and scorer types that a profile does not have yet. */
export function addable({ members }: EditedProfile): { readonly type: string; readonly kind: "filter" | "scorer" }[] {
  return SCHEDULING_PLUGINS.flatMap(({ type, kind }) =>
    (kind === "filter" || kind === "scorer") && !members.some((member) => member.type === type) ? [{ type, kind }] : [],
  );
}

/**
 * Makes a recorded decision again with edited profiles.
 * @returns undefined when the record has nothing to replay
 * @throws Error for parameters that a plugin does not take, types that are not known, and what `buildPlan` refuses
 */
export function replayEdited(
  record: RecordJson,
  plugins: Plugins,
  profiles: readonly EditedProfile[],
): ReplayOutcome | undefined {
  const members = new Set(profiles.flatMap(({ members: all }) => all.map(({ name }) => name)));
  // Plugins of users are not in the browser: those beside the profiles are left out, as hooks are.
  const beside = plugins.flatMap((plugin) =>
    members.has(plugin.name) || REGISTRY.get(plugin.type) === undefined ? [] : [described(plugin)],
  );
  const ofKind = <K extends PluginKind>(kind: K): PluginDescription<K>[] =>
    beside.filter(({ definition }) => definition.kind === kind) as unknown as PluginDescription<K>[];
  const edited = profiles.map(({ name, members: all }) => ({
    name,
    plugins: all
      .filter(({ isOn }) => isOn)
      .map((member): MemberDescription => ({ ...described(member), weight: member.weight })),
  }));
  const configured = [...beside, ...edited.flatMap(({ plugins: all }) => all)];
  const instances = new PluginInstances({
    ...{ clock: new VirtualClock(), random: new SeededRandom(1), log: silentLogger },
    configured,
  });
  try {
    const plan = buildPlan({
      ...{ profiles: edited, handler: ofKind("profile-handler")[0], admitters: ofKind("admitter") },
      ...{ producers: ofKind("producer"), referable: configured, registry: REGISTRY, instances },
    });
    return replay(recordIn(record), plan);
  } finally {
    instances.close();
  }
}

/** No configuration can write an infinite number: it is a default, which comes back when nothing is given. */
function withoutInfinity(_name: string, value: unknown): unknown {
  return value === "Infinity" || value === "-Infinity" ? undefined : value;
}

function described({ name, type, parameters }: PluginRow): PluginDescription {
  const definition: PluginDefinition | undefined = REGISTRY.get(type);
  if (definition === undefined)
    throw new Error(
      `${name} is of the type ${type}, which only the process has: remove the plugin, or use sluice explain --replay`,
    );
  let given: unknown;
  try {
    given = JSON.parse(parameters.trim() === "" ? "{}" : parameters, withoutInfinity);
  } catch (error) {
    throw new Error(`the parameters of ${name} are not JSON: ${messageOf(error)}`);
  }
  const parsed = definition.parameters.safeParse(given);
  if (parsed.success) return { definition, name, parameters: parsed.data };
  const { path, message } = parsed.error.issues[0]!;
  throw new Error(`the parameters of ${name}: ${path.length > 0 ? `${path.join(".")}: ` : ""}${message}`);
}
