import { z } from "zod";
import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { formatPath } from "../../base/document/document.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import { check, type Violation } from "../../base/document/validate.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { redacted } from "../../base/inference/secrets.ts";
import {
  CONTINUE,
  type DispatchGate,
  defineGate,
  type GateContext,
  type GateDefinition,
  type GateFigures,
  type GateOwner,
  type GateSpec,
  type MetricSource,
  type MetricSourceDefinition,
} from "../../base/plugin/gate.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { canonical } from "./parameters.ts";

/** Lets every message pass: the gate of a queue or pool without one. It keeps no state, so one object serves all. */
export const OPEN_GATE: DispatchGate = {
  capacities: [],
  budget: async () => 1,
  apply: () => CONTINUE,
  // It refuses nothing, so it never separates messages that other gates of a chain treat alike.
  refusalKey: () => "",
};

export const constantGate = defineGate({
  type: "constant",
  describe: "Lets every message pass.",
  parameters: z.strictObject({}),
  create: () => OPEN_GATE,
});

export interface GateFactoryOptions {
  /** The built-in gates and the user's. */
  readonly definitions: Iterable<GateDefinition>;
  readonly sources: Iterable<MetricSourceDefinition>;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly figures: (owner: GateOwner) => GateFigures;
  /** `--prometheus-url`; undefined when it is not set. */
  readonly prometheusUrl: string | undefined;
  /** See `GateContext`. */
  readonly askPrometheus?: (promql: string) => string;
  /** `--prometheus-cache-ttl`, milliseconds; 0 = no cache. */
  readonly cacheTtl: number;
  /** `--allow-unknown-gates`: a gate of an unknown type is open, with a warning. */
  readonly allowUnknown: boolean;
}

/** Makes the gates of a configuration, and closes all of them (async-processor 3.2). */
export class GateFactory {
  readonly #options: GateFactoryOptions;
  readonly #definitions: ReadonlyMap<string, GateDefinition>;
  readonly #sourceDefinitions: ReadonlyMap<string, MetricSourceDefinition>;
  /** By type and parameters: gates that name the same source share its answers. */
  readonly #sources = new Map<string, MetricSource>();
  /** By type and parameters: gates that may serve several owners. */
  readonly #shared = new Map<string, { readonly gate: DispatchGate; readonly figures: GateFigures[] }>();
  readonly #gates: DispatchGate[] = [];

  /** @throws SluiceError PLUGIN_TYPE_TAKEN when two definitions claim one type name */
  constructor(options: GateFactoryOptions) {
    this.#options = options;
    this.#definitions = byType(options.definitions, "gates");
    this.#sourceDefinitions = byType(options.sources, "metric sources");
  }

  /**
   * Makes the gate of a queue or a pool.
   * @param spec undefined = always open
   * @throws SluiceError GATE_UNKNOWN, GATE_PARAMETERS, METRIC_SOURCE_UNKNOWN
   */
  make(spec: GateSpec | undefined, owner: GateOwner): DispatchGate {
    if (spec === undefined) return OPEN_GATE;
    const gate = this.#make(spec, owner, ` of ${nameOf(owner)}`);
    const described = { gateType: spec.type, gateParams: redacted(spec.parameters) };
    if (owner.queueName === "") this.#options.log.info({ poolID: owner.poolName, ...described }, "Created pool gate");
    else
      this.#options.log.info(
        { queueID: owner.queueId, queueName: owner.queueName, ...described },
        "Created queue gate",
      );
    return gate;
  }

  /** Closes every gate, then the metric sources. Failures are logged. */
  async close(): Promise<void> {
    const sources = [...this.#sources.values()];
    this.#sources.clear();
    this.#shared.clear();
    await this.#close(this.#gates.splice(0));
    await this.#close(sources);
  }

  async #close(parts: readonly { close?(): Promise<void> | void }[]): Promise<void> {
    const closed = await Promise.allSettled(parts.map(async (part) => part.close?.()));
    for (const end of closed)
      if (end.status === "rejected")
        this.#options.log.warn({ error: messageOf(end.reason) }, "A gate could not be closed");
  }

  /** @param of the owner of the gate, for messages; empty for an inner gate, where the outer gate's message names the owner */
  #make(spec: GateSpec, owner: GateOwner, of: string): DispatchGate {
    const definition = this.#definitions.get(spec.type);
    if (definition === undefined) {
      const problem = `gate type \`${spec.type}\`${of} is not known`;
      if (!this.#options.allowUnknown)
        throw new SluiceError("GATE_UNKNOWN", `${problem}${didYouMean(spec.type, this.#definitions.keys())}`);
      this.#options.log.warn({ gateType: spec.type }, `${problem}: the gate is always open`);
      return OPEN_GATE;
    }
    const figures = this.#options.figures(owner);
    const key = `${spec.type} ${canonical(spec.parameters)}`;
    const shared = this.#shared.get(key);
    if (shared !== undefined) {
      shared.figures.push(figures);
      return shared.gate;
    }
    const all = [figures];
    const gate = made(definition, spec.parameters, this.#context(owner, all), `gate \`${spec.type}\`${of}`);
    this.#gates.push(gate);
    if (definition.shared === true) this.#shared.set(key, { gate, figures: all });
    return gate;
  }

  /** @param figures receive the readings; more may be added later */
  #context(owner: GateOwner, figures: readonly GateFigures[]): GateContext {
    const { clock, random, log, prometheusUrl, askPrometheus, cacheTtl } = this.#options;
    const context: GateContext = {
      owner,
      clock,
      random,
      log,
      figures: {
        reading(pool, reading) {
          for (const each of figures) each.reading(pool, reading);
        },
      },
      prometheusUrl,
      askPrometheus,
      cacheTtl,
      gate: (spec) => this.#make(spec, owner, ""),
      metricSource: (type, parameters) => this.#source(type, parameters, context),
    };
    return context;
  }

  #source(type: string, parameters: Readonly<Record<string, unknown>>, context: GateContext): MetricSource {
    const definition = this.#sourceDefinitions.get(type);
    if (definition === undefined)
      throw new SluiceError(
        "METRIC_SOURCE_UNKNOWN",
        `metric source \`${type}\` is not known${didYouMean(type, this.#sourceDefinitions.keys())}`,
      );
    const key = `${type} ${canonical(parameters)}`;
    const shared = this.#sources.get(key);
    if (shared !== undefined) return shared;
    const source = made(definition, parameters, context, `metric source \`${type}\``);
    this.#sources.set(key, source);
    return source;
  }
}

interface Definition<T> {
  readonly parameters: GateDefinition["parameters"];
  create(parameters: unknown, context: GateContext): T;
}

/** @throws SluiceError GATE_PARAMETERS with all errors */
function made<T>(
  definition: Definition<T>,
  parameters: Readonly<Record<string, unknown>>,
  context: GateContext,
  where: string,
): T {
  const violations: Violation[] = [];
  const parsed = check(parameters, definition.parameters, [], violations);
  if (parsed === undefined) {
    const problems = violations.map(({ path, problem }) =>
      path.length === 0 ? problem : `${formatPath(path)}: ${problem}`,
    );
    throw new SluiceError("GATE_PARAMETERS", `${where}: ${problems.join("; ")}`);
  }
  try {
    return definition.create(parsed.output, context);
  } catch (error) {
    // The inner gate, or the gate itself, names the error; this line adds the owner.
    const code = error instanceof SluiceError ? error.code : "GATE_PARAMETERS";
    throw new SluiceError(code, `${where}: ${messageOf(error)}`, { cause: error });
  }
}

function byType<T extends { readonly type: string }>(definitions: Iterable<T>, what: string): ReadonlyMap<string, T> {
  const types = new Map<string, T>();
  for (const definition of definitions) {
    if (types.has(definition.type))
      throw new SluiceError("PLUGIN_TYPE_TAKEN", `two ${what} claim the type ${definition.type}`);
    types.set(definition.type, definition);
  }
  return types;
}

function nameOf({ queueName, poolName }: GateOwner): string {
  return queueName === "" ? `worker pool \`${poolName}\`` : `queue \`${queueName}\``;
}
