const METRIC = "pubsub.googleapis.com/subscription/num_undelivered_messages";

/** How far back a figure may lie: Cloud Monitoring shows it minutes late. */
const WINDOW = 300_000;

/**
 * How many messages of a subscription nobody has acknowledged, as Cloud Monitoring last saw it (async-processor 5.4).
 * @param now Unix milliseconds
 * @returns NaN when there was no figure within the last 5 minutes
 * @throws whatever `get` throws
 */
export async function undeliveredMessages(
  get: (url: string) => Promise<unknown>,
  projectId: string,
  subscription: string,
  now: number,
): Promise<number> {
  const query = new URLSearchParams({
    filter: `metric.type="${METRIC}" AND resource.labels.subscription_id="${subscription.split("/").at(-1)}"`,
    "interval.startTime": new Date(now - WINDOW).toISOString(),
    "interval.endTime": new Date(now).toISOString(),
    // Points come newest first.
    pageSize: "1",
  });
  const answer = (await get(
    `https://monitoring.googleapis.com/v3/projects/${encodeURIComponent(projectId)}/timeSeries?${query}`,
  )) as TimeSeriesPage | null | undefined;
  const value = answer?.timeSeries?.[0]?.points?.[0]?.value?.int64Value;
  return value === undefined ? Number.NaN : Number(value);
}

interface TimeSeriesPage {
  readonly timeSeries?: readonly {
    readonly points?: readonly { readonly value?: { readonly int64Value?: string | number } }[];
  }[];
}
