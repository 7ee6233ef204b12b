import type { WebhookEvents } from "../../async/batch-api/webhook-events.ts";
import { type MetricsRegistry, registerTable } from "../../base/telemetry/registry.ts";
import { WEBHOOK_METRICS } from "../../base/telemetry/webhook-metrics.ts";

/** Shows what became of the events of a webhook. @returns a function that ends it */
export function showWebhook(registry: MetricsRegistry, events: WebhookEvents): () => void {
  const { webhookEventsTotal, webhookFailuresTotal, webhookWaiting } = registerTable(registry, WEBHOOK_METRICS);
  const delivered = webhookEventsTotal.with("delivered");
  const givenUp = webhookEventsTotal.with("given_up");
  const failures = webhookFailuresTotal.with();
  return registry.onRender(() => {
    const tallies = events.tallies();
    delivered.inc(tallies.delivered - delivered.value);
    givenUp.inc(tallies.givenUp - givenUp.value);
    failures.inc(tallies.failedAttempts - failures.value);
    webhookWaiting.with().set(events.waiting());
  });
}
