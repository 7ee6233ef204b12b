import type {
  FairnessPolicy,
  FlowChoice,
  OrderingPolicy,
  QueuedFlow,
  QueuedRequest,
  SaturationDetector,
  UsageLimitPolicy,
} from "../../../src/base/plugin/flow-kinds.ts";
import type { BandSettings, FlowControlSettings } from "../../../src/picker/flowcontrol/settings.ts";

/** The limits and policies of a band in plain data: the engine gets policies made from them, the slow model reads them. */
export interface PlainBand {
  readonly maxBytes: number;
  readonly maxRequests: number;
  readonly ttl: number;
  /** By arrival, by the end of the time to live, by bytes, or a rank of NaN for all. */
  readonly ordering: "arrival" | "deadline" | "size" | "nan";
  /** One queue for all flows, or turns in the order in which flows joined. */
  readonly fairness: "one-queue" | "turns";
}

/** The configuration of flow control in plain data. */
export interface PlainSettings {
  readonly maxBytes: number;
  readonly maxRequests: number;
  readonly noEndpointTtl: number;
  readonly bands: readonly (readonly [priority: number, band: PlainBand])[];
  readonly template: PlainBand;
  readonly negativeTemplate: PlainBand;
  /** The ceiling of the highest band, and that of the lowest; those between are on the line. */
  readonly ceilings: readonly [highest: number, lowest: number];
}

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
export const FAIRNESS: Readonly<Record<PlainBand["fairness"], FairnessPolicy>> = {
  "one-queue": {
    oneQueue: true,
    choice() {
      throw new Error("a band with one queue asks for no choice");
    },
  },
  turns: { choice: () => new Turns() },
};

/** Ceilings on the line from the highest band to the lowest; one band alone has the highest. */
export function ceilingOf([highest, lowest]: PlainSettings["ceilings"], at: number, bands: number): number {
  return bands === 1 ? highest : highest - ((highest - lowest) * at) / (bands - 1);
}

function usageLimitOf(ceilings: PlainSettings["ceilings"]): UsageLimitPolicy {
  return {
    limit(_saturation, priorities, out) {
      for (const at of priorities.keys()) out[at] = ceilingOf(ceilings, at, priorities.length);
    },
  };
}

/** The settings of a band with its policies. @param ranked called for each request that the ordering policy ranks */
export function bandSettingsOf(
  { ordering, fairness, ...limits }: PlainBand,
  ranked: (queued: QueuedRequest) => void = () => {},
): BandSettings {
  const rank = (queued: QueuedRequest): number => {
    ranked(queued);
    return ORDERINGS[ordering].rank(queued);
  };
  return { ...limits, ordering: { rank }, fairness: FAIRNESS[fairness] };
}

/** The configuration with its policies. @param ranked as in {@link bandSettingsOf} */
export function settingsOf(
  plain: PlainSettings,
  detector: SaturationDetector,
  ranked?: (queued: QueuedRequest) => void,
): FlowControlSettings {
  const { maxBytes, maxRequests, noEndpointTtl } = plain;
  return {
    ...{ maxBytes, maxRequests, noEndpointTtl, detector },
    bands: new Map(plain.bands.map(([priority, band]) => [priority, bandSettingsOf(band, ranked)])),
    template: bandSettingsOf(plain.template, ranked),
    negativeTemplate: bandSettingsOf(plain.negativeTemplate, ranked),
    usageLimit: usageLimitOf(plain.ceilings),
  };
}
