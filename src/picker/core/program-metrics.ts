import type { LabelGuard } from "../../base/telemetry/label-guard.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import { fairnessIndex, type Waits } from "../flowcontrol/policies/average-waits.ts";
import { ProgramAware } from "../flowcontrol/policies/program-aware.ts";

/**
 * Shows the figures of program-aware fairness, for one rendering of the page (scheduling 8.5). Several such policies, and the
 * fairness IDs that share the label `other`, are added up. Without such a policy the families are empty, and the index is NaN.
 * @param instances the plugins in force
 * @param fairness bounds the fairness IDs that clients choose
 * @param now monotonic milliseconds
 */
export function showPrograms(
  metrics: Metrics,
  instances: Iterable<{ readonly instance: unknown }>,
  fairness: LabelGuard,
  now: number,
): void {
  const { programService, programWait, programFairness } = metrics;
  for (const family of [programService, programWait]) family.clear();
  const waits: Waits[] = [];
  const byLabel = new Map<string, Waits>();
  let isThere = false;
  for (const { instance } of instances) {
    if (!(instance instanceof ProgramAware)) continue;
    isThere = true;
    for (const [fairnessId, service] of instance.services(now))
      programService.with(fairness.admit(fairnessId)).inc(service);
    for (const [fairnessId, { requests, total }] of instance.waits(now)) {
      waits.push({ requests, total });
      const label = fairness.admit(fairnessId);
      const shared = byLabel.get(label);
      byLabel.set(label, { requests: requests + (shared?.requests ?? 0), total: total + (shared?.total ?? 0) });
    }
  }
  for (const [label, { requests, total }] of byLabel) programWait.with(label).set(total / requests);
  programFairness.with().set(isThere ? fairnessIndex(waits) : Number.NaN);
}
