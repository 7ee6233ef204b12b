import type { Clock } from "../../../base/clock/clock.ts";
import type { EventRing } from "../../../base/telemetry/event-ring.ts";
import type { PoolEndpoint } from "../../../pool/endpoints/pool-endpoint.ts";
import type { EndpointRegistry } from "../../../pool/endpoints/registry.ts";
import type { EndpointWatch } from "./endpoint-watch.ts";
import type { ProcessEventKind } from "./process-events.ts";

/** Tells the histories of endpoints, and the events of the process, how the pool changes. */
export function watchPool(
  registry: EndpointRegistry,
  endpoints: EndpointWatch,
  events: EventRing<ProcessEventKind>,
  clock: Clock,
): void {
  const change = ({ state, cause }: PoolEndpoint) => ({ at: clock.wall(), state, cause });
  registry.onAdded((endpoint) => {
    endpoints.added(endpoint, change(endpoint));
    events.add("endpoint-added", endpoint.id, `${endpoint.id} (${endpoint.hostPort}) joined the pool`);
  });
  registry.onRemoved((endpoint) => {
    endpoints.removed(endpoint);
    events.add("endpoint-removed", endpoint.id, `${endpoint.id} (${endpoint.hostPort}) left the pool`);
  });
  registry.onStateChanged((endpoint, from) => {
    endpoints.of(endpoint)?.changed(change(endpoint));
    const { id, state, cause } = endpoint;
    events.add(`endpoint-${state}`, id, `${id} changed from ${from} to ${state}: ${cause}`);
  });
}
