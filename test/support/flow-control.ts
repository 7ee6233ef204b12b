import { type FlowControlEvents, NO_EVENTS } from "../../src/picker/flowcontrol/events.ts";
import { FLOW_RULES } from "../../src/picker/flowcontrol/rules.ts";
import type { FlowControlSettings } from "../../src/picker/flowcontrol/settings.ts";

/** Events of flow control for tests that look elsewhere. @param failed receives failures of policies */
export function silentEvents(failed: (error: unknown) => void = () => {}): FlowControlEvents {
  return { ...NO_EVENTS, failed: (_policy, error) => failed(error) };
}

const BAND = {
  maxBytes: 1e9,
  maxRequests: 5000,
  ttl: 60_000,
  ordering: { rank: () => 0 },
  fairness: {
    oneQueue: true,
    choice() {
      throw new Error("a band with one queue has no choice");
    },
  },
};

/**
 * Settings with the defaults: one queue for each band, first come, first served.
 * @param saturation of any pool at present
 */
export function flowSettings(saturation: () => number, more: Partial<FlowControlSettings> = {}): FlowControlSettings {
  return {
    maxBytes: Number.POSITIVE_INFINITY,
    maxRequests: Number.POSITIVE_INFINITY,
    noEndpointTtl: 60_000,
    bands: new Map(),
    template: BAND,
    negativeTemplate: BAND,
    usageLimit: { limit() {} },
    detector: { saturation },
    rules: FLOW_RULES[""],
    ...more,
  };
}
