import type { S3Files } from "../../async/batch-api/s3-files.ts";
import type { WebhookFigures } from "../../async/batch-api/webhook-events.ts";
import { BUCKET_METRICS, WEBHOOK_METRICS } from "../../base/telemetry/batch-api-metrics.ts";
import { type MetricsRegistry, registerTable } from "../../base/telemetry/registry.ts";

/** Shows what became of the events of a webhook. @param figures read for each page @returns a function that ends it */
export function showWebhook(registry: MetricsRegistry, figures: () => WebhookFigures): () => void {
  const { webhookEventsTotal, webhookFailuresTotal, webhookWaiting } = registerTable(registry, WEBHOOK_METRICS);
  const delivered = webhookEventsTotal.with("delivered");
  const givenUp = webhookEventsTotal.with("given_up");
  const failures = webhookFailuresTotal.with();
  return registry.onRender(() => {
    const tallies = figures();
    delivered.inc(tallies.delivered - delivered.value);
    givenUp.inc(tallies.givenUp - givenUp.value);
    failures.inc(tallies.failedAttempts - failures.value);
    webhookWaiting.with().set(tallies.waiting);
  });
}

/** Shows how many files are still to go to the bucket. @returns a function that ends it */
export function showBucket(registry: MetricsRegistry, files: S3Files): () => void {
  const { bucketWaiting } = registerTable(registry, BUCKET_METRICS);
  return registry.onRender(() => bucketWaiting.with().set(files.waiting()));
}
