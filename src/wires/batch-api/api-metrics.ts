import type { S3Files } from "../../async/batch-api/s3-files.ts";
import type { WebhookEvents } from "../../async/batch-api/webhook-events.ts";
import { BUCKET_METRICS, WEBHOOK_METRICS } from "../../base/telemetry/batch-api-metrics.ts";
import { type MetricsRegistry, registerTable } from "../../base/telemetry/registry.ts";

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

/** Shows how many files are still to go to the bucket. @returns a function that ends it */
export function showBucket(registry: MetricsRegistry, files: S3Files): () => void {
  const { bucketWaiting } = registerTable(registry, BUCKET_METRICS);
  return registry.onRender(() => bucketWaiting.with().set(files.waiting()));
}
