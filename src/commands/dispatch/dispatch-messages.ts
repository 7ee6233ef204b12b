import { entryView } from "../../async/batch/queue-tools.ts";
import type { QueueClient } from "../../async/brokers/queue-client.ts";
import type { RedisSortedSetSettings, SqliteSettings, TransportSettings } from "../../async/brokers/settings.ts";
import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { MessagesSource } from "../../wires/admin/messages-routes.ts";

/** Messages in one list. */
const LISTED = 20;

/** Why the page cannot list and cancel the messages of a transport. */
const UNABLE = {
  "redis-pubsub":
    "The transport redis-pubsub stores no waiting messages: a message is sent or ends at its deadline. redis-sortedset and sqlite can cancel messages.",
  "gcp-pubsub":
    "Google Pub/Sub stores the messages, and cannot cancel them: a message is sent or ends at its deadline. The command gcloud pubsub subscriptions seek drops all waiting messages.",
} as const;

interface Deps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
}

/**
 * The queued messages of a dispatcher, for its page. The store gets a connection of its own at the first question, so that a
 * process whose page nobody opens has none.
 * @returns the source, and a function that ends the connection
 */
export function dispatchMessages(
  settings: TransportSettings,
  deps: Deps,
): { readonly source: MessagesSource; readonly close: () => Promise<void> } {
  if (settings.transport !== "redis-sortedset" && settings.transport !== "sqlite")
    return {
      source: {
        unable: UNABLE[settings.transport],
        next: () => Promise.resolve(undefined),
        cancel: () => Promise.resolve(false),
      },
      close: () => Promise.resolve(),
    };
  let opened: Promise<QueueClient> | undefined;
  const client = (): Promise<QueueClient> => {
    opened ??= openClient(settings, deps);
    const mine = opened;
    // A store that is away now is asked again at the next question.
    mine.catch(() => {
      if (opened === mine) opened = undefined;
    });
    return mine;
  };
  return {
    source: {
      unable: undefined,
      async next(name) {
        if (!settings.queues.some((queue) => queue.name === name)) return undefined;
        const entries = await (await client()).inspector.peek(name, LISTED);
        return entries.map((entry) => {
          const { id, deadline, created, retryCount, bytes } = entryView(entry);
          return { id, deadline, created, retries: retryCount, bytes };
        });
      },
      async cancel(id) {
        const queues = await client();
        if ((await queues.outstanding([id]))[0] !== true) return false;
        const producer = await queues.producer("unused", settings.resultQueueName);
        try {
          await producer.cancelRequests([id]);
        } finally {
          await producer.close();
        }
        return true;
      },
    },
    close: async () => {
      (await opened?.catch(() => undefined))?.close();
    },
  };
}

/** Imports the client of this store alone. */
async function openClient(settings: RedisSortedSetSettings | SqliteSettings, deps: Deps): Promise<QueueClient> {
  if (settings.transport === "sqlite") {
    const { sqliteQueueClient } = await import("../../async/brokers/sqlite/queue-client.ts");
    return sqliteQueueClient(settings.path, deps, false);
  }
  const { redisQueueClient } = await import("../../async/brokers/redis-sortedset/queue-client.ts");
  return redisQueueClient(settings.redis, settings.retryQueueName, deps);
}
