import type { MetricTable } from "./registry.ts";

/** The events that the Batch API sends to a webhook. The counts go on over restarts: they are kept with the batches. */
export const WEBHOOK_METRICS = {
  webhookEventsTotal: {
    type: "counter",
    name: "sluice_batch_webhook_events_total",
    help: "Webhook events about ended batches: delivered = the webhook confirmed the event, given_up = no further attempt, or more than 100,000 newer events waited.",
    labels: ["outcome"],
  },
  webhookFailuresTotal: {
    type: "counter",
    name: "sluice_batch_webhook_failed_attempts_total",
    help: "Attempts to deliver a webhook event that got no 2xx status.",
    labels: [],
  },
  webhookWaiting: {
    type: "gauge",
    name: "sluice_batch_webhook_waiting",
    help: "Webhook events that wait for an attempt.",
    labels: [],
  },
} as const satisfies MetricTable;

/** The bucket for the files of batches. */
export const BUCKET_METRICS = {
  bucketWaiting: {
    type: "gauge",
    name: "sluice_batch_files_waiting",
    help: "Files that wait for their move from the folder to the bucket.",
    labels: [],
  },
} as const satisfies MetricTable;

/** Batches that processes share through a store. */
export const SHARED_BATCH_METRICS = {
  batchesHeld: {
    type: "gauge",
    name: "sluice_batch_held",
    help: "Open batches that processes share and that this process works on.",
    labels: [],
  },
  batchesLost: {
    type: "counter",
    name: "sluice_batch_lost_total",
    help: "Batches that another process took over while this process worked on them.",
    labels: [],
  },
  storeSilence: {
    type: "gauge",
    name: "sluice_batch_store_silence_seconds",
    help: "Seconds since the last answer of the store of batches. Above 5 s, this process sends no further line.",
    labels: [],
  },
} as const satisfies MetricTable;
