import { describe, expect, it } from "vitest";
import { loadPubSub, undeliveredMessages } from "./client.ts";

describe("Google's client", () => {
  it("is installed by people who need it: without it the error names the command", async () => {
    const missing = loadPubSub(() => Promise.reject(new Error("Cannot find package '@google-cloud/pubsub'")));
    await expect(missing).rejects.toMatchObject({
      code: "PUBSUB_CLIENT_MISSING",
      message: expect.stringContaining("npm install @google-cloud/pubsub"),
    });
  });
});

const NOW = 1_800_000_000_000;

describe("undelivered messages", () => {
  it("asks Cloud Monitoring for the last five minutes and takes the newest point", async () => {
    const asked: string[] = [];
    const points = [{ value: { int64Value: "17" } }, { value: { int64Value: "99" } }];
    const count = await undeliveredMessages(
      async (url) => {
        asked.push(url);
        return { timeSeries: [{ points }] };
      },
      "my-project",
      "my-sub",
      NOW,
    );
    expect(count).toBe(17);
    const url = new URL(asked[0]!);
    expect(url.origin + url.pathname).toBe("https://monitoring.googleapis.com/v3/projects/my-project/timeSeries");
    expect(url.searchParams.get("filter")).toBe(
      'metric.type="pubsub.googleapis.com/subscription/num_undelivered_messages" AND resource.labels.subscription_id="my-sub"',
    );
    expect(url.searchParams.get("interval.endTime")).toBe("2027-01-15T08:00:00.000Z");
    expect(url.searchParams.get("interval.startTime")).toBe("2027-01-15T07:55:00.000Z");
  });

  it("a full resource name counts by its last part", async () => {
    let asked = "";
    const get = async (url: string): Promise<unknown> => {
      asked = url;
      return {};
    };
    await undeliveredMessages(get, "p", "projects/other/subscriptions/s", NOW);
    expect(new URL(asked).searchParams.get("filter")).toMatch(/subscription_id="s"$/);
  });

  it("no series, no points, no value: unknown, never 0", async () => {
    for (const answer of [undefined, null, {}, { timeSeries: [] }, { timeSeries: [{ points: [] }] }])
      expect(await undeliveredMessages(async () => answer, "p", "s", NOW)).toBeNaN();
  });

  it("a value of 0 is 0", async () => {
    const answer = { timeSeries: [{ points: [{ value: { int64Value: "0" } }] }] };
    expect(await undeliveredMessages(async () => answer, "p", "s", NOW)).toBe(0);
  });
});
