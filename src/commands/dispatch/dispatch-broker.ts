import type { Broker } from "../../async/brokers/broker.ts";
import type { TransportSettings } from "../../async/brokers/settings.ts";
import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { Tracing } from "../../base/telemetry/tracing.ts";

export interface BrokerDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly tracing: Tracing;
}

/**
 * Makes the broker that a configuration names; each is loaded on use, with the client it needs.
 * @throws SluiceError PUBSUB_CLIENT_MISSING
 */
export async function makeBroker(settings: TransportSettings, deps: BrokerDeps): Promise<Broker> {
  switch (settings.transport) {
    case "redis-sortedset":
      return (await import("../../async/brokers/redis-sortedset/broker.ts")).redisSortedSetBroker(settings, deps);
    case "redis-pubsub":
      return (await import("../../async/brokers/redis-pubsub/broker.ts")).redisPubSubBroker(settings, deps);
    case "sqlite":
      return (await import("../../async/brokers/sqlite/broker.ts")).sqliteBroker(settings, deps);
    case "gcp-pubsub": {
      const { pubSubBroker } = await import("../../async/brokers/gcp-pubsub/pubsub-broker.ts");
      const { loadPubSub } = await import("../../async/brokers/gcp-pubsub/client.ts");
      // Google's client is the user's to install: its absence shall be said now, not at the first message.
      await loadPubSub();
      return pubSubBroker(settings, deps);
    }
  }
}
