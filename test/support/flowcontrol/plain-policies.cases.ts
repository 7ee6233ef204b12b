import type {
  FairnessPolicy,
  FlowChoice,
  OrderingPolicy,
  QueuedFlow,
  QueuedRequest,
  SaturationDetector,
  UsageLimitPolicy,
} from "../../../src/base/plugin/flow-kinds.ts";
import { tokenDeficitFairnessPolicy } from "../../../src/picker/flowcontrol/policies/token-deficit.ts";
import { softReflectiveCeilingPolicy } from "../../../src/picker/flowcontrol/policies/usage-limits.ts";
import { FLOW_RULES } from "../../../src/picker/flowcontrol/rules.ts";
import type { BandSettings, FlowControlSettings } from "../../../src/picker/flowcontrol/settings.ts";
import { instanceOf } from "../scheduling/fakes.cases.ts";

/** The limits and policies of a band in plain data: the engine gets policies made from them, the slow model reads them. */
export interface PlainBand {
  readonly maxBytes: number;
  readonly maxRequests: number;
  readonly ttl: number;
  /** By arrival, by the end of the time to live, by bytes, or a rank of NaN for all. */
  readonly ordering: "arrival" | "deadline" | "size" | "nan";
  /** One queue for all flows, turns in the order in which flows joined, or shares of tokens by `WEIGHTS`. */
  readonly fairness: "one-queue" | "turns" | "tokens";
}

/** The configuration of flow control in plain data. */
export interface PlainSettings {
  readonly maxBytes: number;
  readonly maxRequests: number;
  readonly noEndpointTtl: number;
  readonly bands: readonly (readonly [priority: number, band: PlainBand])[];
  readonly template: PlainBand;
  readonly negativeTemplate: PlainBand;
  /**
   * The ceiling of the highest band, and that of the lowest; those between are on the line. Or the ceilings alternate:
   * soft-reflective-ceiling-policy sets them.
   */
  readonly ceilings: Line | "reflective";
}

type Line = readonly [highest: number, lowest: number];

/** Weights of flows that share tokens; others have 1. Powers of 2, so that engine and model round alike. */
export const WEIGHTS: Readonly<Record<string, number>> = { a: 2, c: 0.5 };

/** A band without limits in which requests leave as they came. */
export const PLAIN_BAND: PlainBand = {
  maxBytes: Number.POSITIVE_INFINITY,
  maxRequests: Number.POSITIVE_INFINITY,
  ttl: Number.POSITIVE_INFINITY,
  ordering: "arrival",
  fairness: "one-queue",
};

/** No limits, no times to live, a ceiling of 1 for all. */
export const PLAIN: PlainSettings = {
  maxBytes: Number.POSITIVE_INFINITY,
  maxRequests: Number.POSITIVE_INFINITY,
  noEndpointTtl: Number.POSITIVE_INFINITY,
  bands: [],
  template: PLAIN_BAND,
  negativeTemplate: PLAIN_BAND,
  ceilings: [1, 1],
};

const ORDERINGS: Readonly<Record<PlainBand["ordering"], OrderingPolicy>> = {
  arrival: { rank: ({ enqueuedAt }) => enqueuedAt },
  deadline: { rank: ({ enqueuedAt, ttl }) => enqueuedAt + ttl },
  size: { rank: ({ bytes }) => bytes },
  nan: { rank: () => Number.NaN },
};

/** Flows take turns in the order in which they joined. */
class Turns implements FlowChoice {
  readonly #flows: QueuedFlow[] = [];

  joined(flow: QueuedFlow): void {
    this.#flows.push(flow);
  }

  left(flow: QueuedFlow): void {
    this.#flows.splice(this.#flows.indexOf(flow), 1);
  }

  next(): QueuedFlow {
    return this.#flows[0]!;
  }

  served(flow: QueuedFlow): void {
    this.left(flow);
    this.joined(flow);
  }
}

/** See `PlainBand.fairness`. */
export const FAIRNESS: Readonly<Record<Exclude<PlainBand["fairness"], "tokens">, FairnessPolicy>> = {
  "one-queue": {
    oneQueue: true,
    choice() {
      throw new Error("a band with one queue asks for no choice");
    },
  },
  turns: { choice: () => new Turns() },
};

/** Ceilings on the line from the highest band to the lowest; one band alone has the highest. */
export function ceilingOf([highest, lowest]: Line, at: number, bands: number): number {
  return bands === 1 ? highest : highest - ((highest - lowest) * at) / (bands - 1);
}

function usageLimitOf(ceilings: PlainSettings["ceilings"]): UsageLimitPolicy {
  if (ceilings === "reflective") return instanceOf(softReflectiveCeilingPolicy);
  return {
    limit(_saturation, priorities, out) {
      for (const at of priorities.keys()) out[at] = ceilingOf(ceilings, at, priorities.length);
    },
  };
}

/** A policy of its own, as each configuration gets one for all its bands. */
function sharesOfTokens(): FairnessPolicy {
  return instanceOf(tokenDeficitFairnessPolicy, { weights: WEIGHTS });
}

/**
 * The settings of a band with its policies.
 * @param ranked called for each request that the ordering policy ranks
 * @param tokens the policy that shares tokens
 */
export function bandSettingsOf(
  { ordering, fairness, ...limits }: PlainBand,
  ranked: (queued: QueuedRequest) => void = () => {},
  tokens: FairnessPolicy = sharesOfTokens(),
): BandSettings {
  const rank = (queued: QueuedRequest): number => {
    ranked(queued);
    return ORDERINGS[ordering].rank(queued);
  };
  return { ...limits, ordering: { rank }, fairness: fairness === "tokens" ? tokens : FAIRNESS[fairness] };
}

/** The configuration with its policies. @param ranked as in {@link bandSettingsOf} */
export function settingsOf(
  plain: PlainSettings,
  detector: SaturationDetector,
  ranked?: (queued: QueuedRequest) => void,
): FlowControlSettings {
  const { maxBytes, maxRequests, noEndpointTtl } = plain;
  const tokens = sharesOfTokens();
  return {
    ...{ maxBytes, maxRequests, noEndpointTtl, detector },
    bands: new Map(plain.bands.map(([priority, band]) => [priority, bandSettingsOf(band, ranked, tokens)])),
    template: bandSettingsOf(plain.template, ranked, tokens),
    negativeTemplate: bandSettingsOf(plain.negativeTemplate, ranked, tokens),
    usageLimit: usageLimitOf(plain.ceilings),
    rules: FLOW_RULES[""],
  };
}
