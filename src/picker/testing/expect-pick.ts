import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { PluginInstances } from "../../base/plugin/instances.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { buildPlan, planOfOne } from "../scheduling/build.ts";
import type { SchedulingPlan } from "../scheduling/profile.ts";
import { Scheduler } from "../scheduling/scheduler.ts";
import { Pick } from "./pick.ts";
import { BUILT_IN, describedBy, failureOf, ofKind, type PluginUse } from "./plugin-uses.ts";
import {
  type EndpointSketch,
  endpointOf,
  type Keys,
  type RequestSketch,
  refuseUnknownKeys,
  requestOf,
} from "./sketches.ts";

/** The input of a decision in a test. */
export interface PickScene {
  /** All plugins that take part, in order. Producers that are required and not listed are added with their defaults. */
  readonly plugins: readonly PluginUse[];
  /**
   * Filters, scorers and picker of several profiles by their names; `plugins` then holds the profile handler and the plugins
   * that belong to no profile. Default: one profile of `plugins`.
   */
  readonly profiles?: Readonly<Record<string, readonly PluginUse[]>>;
  readonly endpoints: readonly EndpointSketch[];
  readonly request?: RequestSketch;
  /** Requests that were scheduled before on the same endpoints, for plugins with a memory. */
  readonly earlier?: readonly RequestSketch[];
  /** The values that `prepare` of producers resolved to, by the names of the producers. */
  readonly prepared?: Readonly<Record<string, unknown>>;
  /** The seed of random numbers: with it a test may assert a random pick. */
  readonly seed?: number;
}

const SCENE_KEYS: Keys<PickScene> = {
  plugins: true,
  profiles: true,
  endpoints: true,
  request: true,
  earlier: true,
  prepared: true,
  seed: true,
};

/**
 * Schedules a request as the running process would, with a clock that does not move. Returns the outcome with assertions:
 * `expectPick({ plugins: [mine], endpoints: [...] }).toBe("pod-a")`. Needs no test framework.
 * @throws Error when the scene is wrong, or a plugin throws
 */
export function expectPick(scene: PickScene): Pick {
  refuseUnknownKeys(scene, SCENE_KEYS, "the scene");
  const names = scene.endpoints.map(({ name }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw new Error(`two endpoints are called ${twice}; give each a different name`);
  const endpoints = scene.endpoints.map(endpointOf);
  const random = new SeededRandom(scene.seed ?? 1);
  const failures: Error[] = [];
  const scheduler = new Scheduler({
    plan: planOf(scene, random),
    clock: new VirtualClock(),
    random,
    hooks: { pluginFailed: (point, { name }, error) => void failures.push(failureOf(name, point, error)) },
  });
  for (const earlier of scene.earlier ?? []) scheduler.schedule(requestOf(earlier), endpoints, 0);
  const prepared = new Map(Object.entries(scene.prepared ?? {}));
  const outcome = scheduler.schedule(requestOf(scene.request), endpoints, 0, { full: true, prepared });
  if (failures[0] !== undefined) throw failures[0];
  const rejection = outcome instanceof Rejection ? outcome : undefined;
  const again = planOf(scene, new SeededRandom(1));
  return new Pick(rejection, scheduler.records.newest!, endpoints, again, scene.seed !== undefined);
}

function planOf({ plugins, profiles }: PickScene, random: SeededRandom): SchedulingPlan {
  const described = plugins.map(describedBy);
  const clock = new VirtualClock();
  if (profiles === undefined) return planOfOne({ plugins: described, registry: BUILT_IN, clock, random });
  const member = described.find(
    ({ definition: { kind } }) => kind === "filter" || kind === "scorer" || kind === "picker",
  );
  if (member !== undefined) throw new Error(`${member.name} is in no profile; move it into one of \`profiles\``);
  return buildPlan({
    profiles: Object.entries(profiles).map(([name, uses]) => ({ name, plugins: uses.map(describedBy) })),
    handler: ofKind("profile-handler", described)[0],
    screeners: ofKind("screener", described),
    admitters: ofKind("admitter", described),
    producers: ofKind("producer", described),
    referable: described,
    registry: BUILT_IN,
    instances: new PluginInstances({ clock, random, log: silentLogger, configured: described }),
  });
}

/** Returns the score that a scorer alone gives each endpoint, 0..1, by name. */
export function scoreWith(
  scorer: PluginUse,
  scene: Omit<PickScene, "plugins" | "profiles">,
): Readonly<Record<string, number>> {
  const { name } = describedBy(scorer);
  return expectPick({ ...scene, plugins: [scorer] }).scores[name] ?? {};
}

/** Returns the endpoints that a filter or a screener alone keeps, by name, in the given order. */
export function filterWith(filter: PluginUse, scene: Omit<PickScene, "plugins" | "profiles">): readonly string[] {
  const { droppedBy } = expectPick({ ...scene, plugins: [filter] });
  return scene.endpoints.map(({ name }) => name).filter((name) => droppedBy[name] === undefined);
}
