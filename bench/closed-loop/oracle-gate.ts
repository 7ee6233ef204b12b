import type { Clock } from "../../src/base/clock/clock.ts";
import type { CapacityReading, DispatchGate } from "../../src/base/plugin/gate.ts";
import type { SimEngine } from "../../src/lab/simulator/engine.ts";

/** A gate that knows at every moment how many slots are free: what any gate that reads metrics can be measured against. */
export function oracleGate(clock: Clock, engines: readonly SimEngine[], baseline: number): DispatchGate {
  const maxSys = engines.reduce((sum, { config }) => sum + config.maxNumSeqs, 0);
  const read = async (): Promise<CapacityReading> => {
    const taken = engines.reduce((sum, { running, waiting }) => sum + running + waiting, 0);
    const budget = Math.max(0, 1 - taken / maxSys);
    return {
      ...{ readable: true, problem: "", budget, baseline, maxSys, unit: "requests", kind: "occupancy" },
      ...{ sampleTime: clock.wall(), value: budget, threshold: baseline },
    };
  };
  return {
    capacities: [{ key: "oracle", read }],
    budget: async () => (await read()).budget,
    apply: () => ({ kind: "continue" }),
  };
}
