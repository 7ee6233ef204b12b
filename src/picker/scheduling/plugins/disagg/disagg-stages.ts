import type { Clock } from "../../../../base/clock/clock.ts";
import { Rejection } from "../../../../base/inference/outcomes.ts";
import { type InferenceRequest, promptTokens } from "../../../../base/inference/request.ts";
import type { Decider, ProfileHandler, ProfilePickContext, ProfileResult } from "../../../../base/plugin/kinds.ts";
import type { Logger } from "../../../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../../../base/telemetry/rate-limited-log.ts";
import { refusePromise } from "../../plugin-calls.ts";

/** The stages of disaggregated serving and their deciders. */
interface DisaggSettings {
  readonly prefillFirst: boolean;
  /** Names of profiles; undefined = the stage does not exist. */
  readonly decode: string;
  readonly prefill: string;
  readonly encode: string | undefined;
  /** Undefined: Sluice skips the stage, unless prefill is first. */
  readonly prefillDecider: Decider | undefined;
  readonly encodeDecider: Decider | undefined;
  /** As of `ProfileHandler`. */
  readonly primaryPort?: number;
  /** Gets the errors of deciders. */
  readonly log: Logger;
  readonly clock: Clock;
}

/** Milliseconds between two log lines about the decider of one stage. */
const TELL_EVERY = 10_000;

const NOTHING: readonly string[] = [];

/**
 * Runs up to three profiles per request, each in its own step: a later profile can depend on the choice of an earlier one. The
 * order is decode, encode, prefill or prefill, encode, decode. Only decode must find an endpoint, and it is always the primary
 * profile: its endpoint does the work of the missing stages (scheduling 3.7.1). A decider that fails is logged and counts as a
 * no.
 */
export class DisaggStages implements ProfileHandler {
  readonly primaryPort: number | undefined;
  readonly #settings: DisaggSettings;
  readonly #decode: readonly string[];
  readonly #prefill: readonly string[];
  readonly #encode: readonly string[];
  readonly #log: RateLimitedLog;

  constructor(settings: DisaggSettings) {
    this.#settings = settings;
    this.primaryPort = settings.primaryPort;
    this.#decode = [settings.decode];
    this.#prefill = [settings.prefill];
    this.#encode = settings.encode === undefined ? NOTHING : [settings.encode];
    this.#log = new RateLimitedLog(settings.log, settings.clock, { intervalMs: TELL_EVERY, maxKeys: 2 });
  }

  pick(context: ProfilePickContext): readonly string[] {
    return this.#settings.prefillFirst ? this.#prefillFirst(context) : this.#decodeFirst(context);
  }

  processResults({ profiles, results }: ProfilePickContext): string | Rejection {
    const { decode } = this.#settings;
    const result = results.get(decode);
    const failed = "failed to find available decode workers";
    if (result instanceof Rejection) return new Rejection(result.reason, `${failed}: ${result.detail}`);
    if (result !== undefined) return decode;
    return new Rejection("denied", `${failed}: no profile is called ${decode}, there are ${profiles.join(", ")}`);
  }

  decisionType({ results }: ProfilePickContext): string | undefined {
    const { decode, prefill, encode } = this.#settings;
    if (succeeded(results.get(decode)) === undefined) return undefined;
    const prefilled = succeeded(results.get(prefill)) !== undefined;
    const encoded = encode !== undefined && succeeded(results.get(encode)) !== undefined;
    if (encoded) return prefilled ? "encode-prefill-decode" : "encode-decode";
    return prefilled ? "prefill-decode" : "decode-only";
  }

  /** Each decider runs at most once: after a stage that ran, its decider does not run again. */
  #decodeFirst({ request, profiles, results }: ProfilePickContext): readonly string[] {
    const { decode, prefill, encode } = this.#settings;
    if (!results.has(decode)) return profiles.includes(decode) ? this.#decode : NOTHING;
    const chosen = succeeded(results.get(decode));
    if (chosen === undefined || results.has(prefill)) return NOTHING;
    if (encode !== undefined && profiles.includes(encode) && !results.has(encode))
      if (this.#decides("encode", request, chosen)) return this.#encode;
    return profiles.includes(prefill) && this.#decides("prefill", request, chosen) ? this.#prefill : NOTHING;
  }

  #prefillFirst({ request, profiles, results }: ProfilePickContext): readonly string[] {
    const { decode, prefill, encode } = this.#settings;
    if (results.has(decode)) return NOTHING;
    if (profiles.includes(prefill) && !results.has(prefill)) return this.#prefill;
    if (encode !== undefined && profiles.includes(encode) && !results.has(encode))
      if (this.#decides("encode", request, undefined)) return this.#encode;
    return profiles.includes(decode) ? this.#decode : NOTHING;
  }

  /**
   * Handlers have no access to request attributes. So the prompt's tokens are estimated from its text, even where a producer
   * counted them.
   */
  #decides(stage: "prefill" | "encode", request: InferenceRequest, result: ProfileResult | undefined): boolean {
    const decider = this.#settings[`${stage}Decider`];
    if (decider === undefined) return false;
    const inputTokens = promptTokens(request);
    try {
      const answer: unknown = decider.decide({ request, result, inputTokens });
      // A promise is truthy, so it would always count as a yes.
      refusePromise(answer);
      return Boolean(answer);
    } catch (error) {
      this.#log.log("error", stage, { err: error, stage }, `the ${stage} decider failed, so the stage does not run`);
      return false;
    }
  }
}

function succeeded(result: ProfileResult | Rejection | undefined): ProfileResult | undefined {
  return result instanceof Rejection ? undefined : result;
}
