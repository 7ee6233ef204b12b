import {
  type CapacityReading,
  CONTINUE,
  type DispatchGate,
  type GateContext,
  type GateMessage,
  type GateVerdict,
  REFUSE,
} from "../../base/plugin/gate.ts";
import { MetricCapacity, type MetricGateOptions } from "./metric-capacity.ts";
import { whileWanted } from "./metric-sources/refresh-cache.ts";

/** A gate that lets messages pass while a metric says that there is room (async-processor 3.3, metric gates). */
export function metricGate(options: MetricGateOptions, context: GateContext): DispatchGate {
  const capacity = new MetricCapacity(options, context);
  const verdict = (reading: CapacityReading): GateVerdict => (capacity.budgetOf(reading) > 0 ? CONTINUE : REFUSE);
  return {
    capacities: [capacity],
    budget: async () => capacity.budgetOf(await capacity.read(false)),
    apply(message: GateMessage) {
      if (message.admitted === true) return CONTINUE;
      const { kept } = capacity;
      return kept === undefined ? whileWanted(capacity.read(false), message.signal).then(verdict) : verdict(kept);
    },
    close: () => capacity.close(),
  };
}
