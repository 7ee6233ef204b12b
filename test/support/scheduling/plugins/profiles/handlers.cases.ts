import { SeededRandom } from "../../../../../src/base/clock/random.ts";
import { VirtualClock } from "../../../../../src/base/clock/virtual.ts";
import { Rejection } from "../../../../../src/base/inference/outcomes.ts";
import type { InferenceRequest } from "../../../../../src/base/inference/request.ts";
import { PluginInstances } from "../../../../../src/base/plugin/instances.ts";
import type { ColumnKey } from "../../../../../src/base/plugin/keys.ts";
import type {
  DecideContext,
  PluginDefinition,
  ProfileHandler,
  ProfileResult,
} from "../../../../../src/base/plugin/kinds.ts";
import { silentLogger } from "../../../../../src/base/telemetry/logger.ts";
import { endpointOf, requestOf } from "../../fakes.cases.ts";

/** What a profile comes to in a test: the slots of its endpoints, or undefined when it finds none. */
export type Outcomes = Readonly<Record<string, readonly number[] | undefined>>;

/** A decider that says the same each time, and what it was asked. */
export function deciderSaying(type: string, answer: boolean) {
  const asked: DecideContext[] = [];
  const definition: PluginDefinition<"decider"> = {
    kind: "decider",
    type,
    describe: "",
    parameters: { parse: () => ({}) } as unknown as PluginDefinition["parameters"],
    produces: [],
    requires: [],
    create: () => ({
      decide(context) {
        asked.push(context);
        return answer;
      },
    }),
  };
  return { definition, asked };
}

/** A handler made as a configuration makes it, with deciders that go by their types. */
export function handlerOf(
  definition: PluginDefinition<"profile-handler">,
  parameters: object = {},
  deciders: readonly PluginDefinition<"decider">[] = [],
  { clock = new VirtualClock(), log = silentLogger } = {},
): ProfileHandler {
  const configured = deciders.map((decider) => ({ definition: decider, name: decider.type, parameters: {} }));
  const parts = { clock, random: new SeededRandom(1), log, configured };
  const described = { definition, name: definition.type, parameters: definition.parameters.parse(parameters) };
  return new PluginInstances(parts).make(described);
}

/** What a profile that found endpoints says; columns hold the same for all of them. */
export function resultOf(slots: readonly number[], columns: ReadonlyMap<ColumnKey, number> = new Map()): ProfileResult {
  return { endpoints: slots.map((slot) => endpointOf(slot)), value: (key) => columns.get(key) };
}

/**
 * Runs the loop of scheduling 3.6 over profiles that come to what `outcomes` says.
 * @returns the steps, what they came to, and what the handler says about itself
 */
export function decide(handler: ProfileHandler, outcomes: Outcomes, request: InferenceRequest = requestOf("prompt")) {
  const profiles = Object.keys(outcomes);
  const results = new Map<string, ProfileResult | Rejection>();
  const context = { request, profiles, results };
  const steps: (readonly string[])[] = [];
  for (let names = handler.pick(context); names.length > 0; names = handler.pick(context)) {
    steps.push([...names]);
    for (const name of names) {
      if (results.has(name)) throw new Error(`${name} was run before`);
      const slots = outcomes[name];
      results.set(name, slots === undefined ? new Rejection("no_target", `${name} has none`) : resultOf(slots));
    }
  }
  return { steps, primary: handler.processResults(context), decision: handler.decisionType?.(context) };
}
