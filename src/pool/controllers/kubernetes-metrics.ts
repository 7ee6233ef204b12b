import type { Clock } from "../../base/clock/clock.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import { ELECTION_METRICS } from "../../base/telemetry/pool-metrics.ts";
import { type MetricsRegistry, registerTable } from "../../base/telemetry/registry.ts";
import type { FollowedKind } from "./cluster-state.ts";

/**
 * Shows how up to date the picture of the cluster is, and who leads; worked out whenever the page is rendered.
 * @param state what is followed; the same kinds every time
 * @param election whether this replica leads; absent = there is none
 * @returns stops showing it
 */
export function showCluster(
  { registry, metrics }: { readonly registry: MetricsRegistry; readonly metrics: Metrics },
  state: { kinds(): readonly FollowedKind[] },
  clock: Clock,
  election?: { readonly leading: boolean },
): () => void {
  const startedAt = clock.now();
  const leads = election && registerTable(registry, ELECTION_METRICS).kubernetesLeader.with();
  return registry.onRender(() => {
    for (const { name, state: followed } of state.kinds()) {
      const { absent, kept, heardAt, objects, lists, failures } = followed;
      // Nobody should be woken because a kind that need not be there is not; what counts of one that may not be read ages.
      if (absent && !kept) metrics.kubernetesHeardAge.remove(name);
      else metrics.kubernetesHeardAge.with(name).set((clock.now() - Math.max(startedAt, heardAt)) / 1000);
      metrics.kubernetesObjects.with(name).set(objects);
      const listed = metrics.kubernetesListsTotal.with(name);
      listed.inc(lists - listed.value);
      const failed = metrics.kubernetesFailuresTotal.with(name);
      failed.inc(failures - failed.value);
    }
    leads?.set(election?.leading ? 1 : 0);
  });
}
