import type { MetricTable } from "./registry.ts";

/** The events that the Batch API sends to a webhook. The counts go on over restarts: they are kept with the batches. */
export const WEBHOOK_METRICS = {
  webhookEventsTotal: {
    type: "counter",
    name: "sluice_batch_webhook_events_total",
    help: "Events about ended batches that the webhook confirmed (delivered), or that are not sent any more (given_up).",
    labels: ["outcome"],
  },
  webhookFailuresTotal: {
    type: "counter",
    name: "sluice_batch_webhook_failed_attempts_total",
    help: "Attempts to deliver an event that ended without a 2xx status.",
    labels: [],
  },
  webhookWaiting: {
    type: "gauge",
    name: "sluice_batch_webhook_waiting",
    help: "Events that wait for their first or next attempt.",
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
    help: "Open batches that this process works on, of those that it shares with others.",
    labels: [],
  },
  batchesLost: {
    type: "counter",
    name: "sluice_batch_lost_total",
    help: "Batches that another process took over while this one worked on them.",
    labels: [],
  },
  storeSilence: {
    type: "gauge",
    name: "sluice_batch_store_silence_seconds",
    help: "Time since the store of the batches answered last. Above 5 seconds, this process sends no further line.",
    labels: [],
  },
} as const satisfies MetricTable;
