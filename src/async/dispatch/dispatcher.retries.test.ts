import { describe, expect, it } from "vitest";
import { answer, Harness, OK } from "../../../test/support/dispatch/harness.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { parseDocument } from "../../base/document/parse.ts";
import type { GatewayAnswer } from "./send/inference-client.ts";
import { requestTransforms } from "./transforms/transforms-file.ts";

const header = (headers: readonly string[], name: string): string | undefined => {
  const at = headers.findIndex((each, i) => i % 2 === 0 && each.toLowerCase() === name);
  return at < 0 ? undefined : headers[at + 1];
};

describe("a gateway that is away for 30 s (A-78, H-2)", () => {
  const ways: readonly (readonly [string, GatewayAnswer])[] = [
    ["refuses connections", { kind: "no-answer", message: "connect ECONNREFUSED" }],
    ["cannot be found", { kind: "no-answer", message: "getaddrinfo ENOTFOUND gateway" }],
    ["resets connections", { kind: "no-answer", message: "read ECONNRESET" }],
    [
      "cuts its answers off",
      { kind: "truncated", status: 200, retryAfterMs: undefined, message: "cut", tooLong: false },
    ],
    ["answers 502", answer(502)],
    ["answers 408", answer(408)],
  ];
  it.each(ways)("and %s: every message ends with 200 before its deadline", async (_, away) => {
    const harness = new Harness({ workers: 8 });
    harness.gateway.latency = 20;
    harness.gateway.reply = () => (harness.clock.now() < 30_000 ? away : OK);
    await harness.submitMany(300, { deadline: harness.in(240) });
    harness.start();
    await harness.run(150_000);
    expect(harness.results()).toHaveLength(300);
    expect(harness.results().every(({ statusCode }) => statusCode === 200)).toBe(true);
    expect(harness.metric("failed_requests_total")).toBeNaN();
    // Some five attempts per message, no storm (390 / 391).
    expect(harness.gateway.requests.length).toBeLessThan(300 * 6);
  });
});

describe("a message whose deadline passes after failed attempts", () => {
  const refused: GatewayAnswer = { kind: "no-answer", message: "connect ECONNREFUSED 10.0.0.1:80" };
  const code = "DEADLINE_EXCEEDED";

  it.each<readonly [string, GatewayAnswer, string]>([
    ["refused", refused, "connect ECONNREFUSED 10.0.0.1:80"],
    ["timed out", { kind: "timeout", message: "no complete answer within 5 ms" }, "no complete answer within 5 ms"],
    [
      "answered with garbage",
      { kind: "truncated", status: 200, retryAfterMs: undefined, message: "cut", tooLong: false },
      "status 200: cut",
    ],
  ])("says in its result that the last one was %s", async (_, away, cause) => {
    const harness = new Harness();
    harness.gateway.reply = () => away;
    await harness.submit("a", { deadline: harness.in(20) });
    harness.start();
    await harness.run(30_000);
    expect(harness.gateway.requests.length).toBeGreaterThan(1);
    const errorMessage = `deadline exceeded; the last attempt: ${cause}`;
    expect(harness.resultOf("a")).toMatchObject({ errorCode: code, errorMessage, statusCode: 0 });
  });

  it("says so, too, where it expires in the queue, and never more than 300 characters of it (bound)", async () => {
    const first = new Harness();
    first.gateway.reply = () => ({ ...refused, message: "x".repeat(1000) });
    await first.submit("a", { deadline: first.in(20) });
    first.start();
    await first.run(1000);
    void first.dispatcher.stop(0);
    await first.run(1000);
    // Nobody was there until its deadline had passed; then another process took it.
    first.clock.advance(60_000);
    const second = new Harness({ clock: first.clock, store: first.store });
    second.start();
    await second.run(5000);
    expect(second.gateway.requests).toEqual([]);
    const errorMessage = `deadline exceeded; the last attempt: ${"x".repeat(300)}`;
    expect(second.resultOf("a")).toMatchObject({ errorCode: code, errorMessage });
  });
});

describe("Retry-After (A-79, async-processor 5.2.6)", () => {
  const asking = (retryAfterMs: number): readonly (readonly [string, GatewayAnswer])[] => [
    ["429", answer(429, { retryAfterMs })],
    ["503", answer(503, { retryAfterMs })],
    ["a truncated body", { kind: "truncated", status: 200, retryAfterMs, message: "cut", tooLong: false }],
  ];
  it.each(asking(40_000))("of %s is waited for, and a quarter more at most", async (_, first) => {
    const harness = new Harness();
    harness.gateway.reply = (_request, attempt) => (attempt === 1 ? first : OK);
    await harness.submit("a", { deadline: harness.in(1000) });
    harness.start();
    await harness.run(60_000);
    expect(harness.gateway.requests).toHaveLength(2);
    const pause = harness.gateway.requests[1]!.at - harness.gateway.requests[0]!.at;
    expect(pause).toBeGreaterThan(39_000);
    expect(pause).toBeLessThan(52_000);
  });

  it.each(asking(3_600_000))("of %s beyond the deadline kills no message (381, A-53)", async (_, first) => {
    const harness = new Harness();
    harness.gateway.reply = (_request, attempt) => (attempt === 1 ? first : OK);
    await harness.submit("a", { deadline: harness.in(100) });
    harness.start();
    await harness.run(70_000);
    expect(harness.resultOf("a")?.statusCode).toBe(200);
  });
});

describe("what is left when the time is up (A-83)", () => {
  it.each([2, 3, 5, 10, 31])(
    "after answers of 503 for %s s: the last status and body, and no error code",
    async (seconds) => {
      const harness = new Harness({ workers: 16 });
      harness.gateway.latency = 30;
      harness.gateway.reply = (_, attempt) => answer(503, { body: Buffer.from(`busy ${attempt}`) });
      await harness.submitMany(10, { deadline: harness.in(seconds) });
      harness.start();
      await harness.run(seconds * 1000 + 2000);
      expect(harness.results()).toHaveLength(10);
      for (const { statusCode, errorCode, payload } of harness.results()) {
        expect([statusCode, errorCode]).toEqual([503, ""]);
        expect(Buffer.from(payload).toString()).toMatch(/^busy \d+$/);
      }
      expect(harness.metric("exceeded_deadline_requests_total")).toBe(10);
      expect(harness.metric("failed_requests_total")).toBeNaN();
    },
  );

  it("a reason of the gateway stands in the error message (async-processor 7.4)", async () => {
    const harness = new Harness();
    harness.gateway.reply = () => answer(429, { dropReason: "rejected-ttl-expired" });
    await harness.submit("a", { deadline: harness.in(4) });
    harness.start();
    await harness.run(6000);
    expect(harness.resultOf("a")).toMatchObject({ statusCode: 429, errorCode: "" });
    expect(harness.resultOf("a")?.errorMessage).toContain("(dropped: rejected-ttl-expired)");
  });
});

describe("an attempt that takes too long (A-80, H-40)", () => {
  it("is repeated while there is time, and never counts as failed", async () => {
    const harness = new Harness({ requestTimeout: 1000, workers: 4 });
    harness.gateway.latency = 3000;
    await harness.submitMany(10, { deadline: harness.in(300) });
    harness.start();
    await harness.run(20_000);
    expect(harness.results()).toHaveLength(0);
    expect(harness.gateway.requests.length).toBeGreaterThan(10);
    expect(harness.gateway.running).toBeLessThanOrEqual(4);
    harness.gateway.latency = 100;
    await harness.run(120_000);
    expect(harness.results().map(({ statusCode }) => statusCode)).toEqual(Array(10).fill(200));
    expect(harness.metric("failed_requests_total")).toBeNaN();
    expect(harness.metric("exceeded_deadline_requests_total")).toBeNaN();
  });
});

describe("5,000 retries that come due together (A-55, H-30)", () => {
  it("are back at the gateway within five seconds", async () => {
    const harness = new Harness({ workers: 64 });
    harness.gateway.reply = () => answer(429, { retryAfterMs: 20_000 });
    await harness.submitMany(5000, { deadline: harness.in(3000) });
    harness.start();
    await harness.run(2000);
    expect(harness.store.parked.size).toBe(5000);
    await harness.run(26_000);
    const again = harness.gateway.requests.slice(5000);
    expect(again.length).toBeGreaterThanOrEqual(5000);
    // Each is sent again when its own pause is over, and not when a mover has got round to it.
    const due = harness.gateway.requests.slice(0, 5000).map(({ at }) => at + 20_000);
    expect(again[0]!.at).toBeGreaterThanOrEqual(Math.min(...due) - 1000);
    expect(again[4999]!.at).toBeLessThan(Math.max(...due) + 5000 + 1000);
  });
});

describe("retries and fresh messages (391, 5.2.3)", () => {
  it("a retry whose pause is over does not wait behind the backlog of its own second", async () => {
    const harness = new Harness({ workers: 4 });
    harness.gateway.latency = 100;
    const failed = new Set<string>();
    harness.gateway.reply = ({ headers }) => {
      const id = header(headers, "x-request-id")!;
      if (!id.startsWith("first") || failed.has(id)) return OK;
      failed.add(id);
      return answer(503);
    };
    const deadline = harness.in(3000);
    await harness.submitMany(4, { deadline }, "first");
    await harness.submitMany(1000, { deadline }, "m");
    harness.start();
    await harness.run(10_000);
    // All have the same deadline, and those four came first.
    expect(harness.results().filter(({ id }) => id.startsWith("first"))).toHaveLength(4);
  });

  it("keeps the bytes, headers, metadata and endpoint of the message over a retry", async () => {
    const harness = new Harness();
    harness.gateway.reply = (_, attempt) => (attempt < 3 ? answer(500) : OK);
    const payload = '{ "n": 12345678901234567890, "b":"<&>\\u00e9", "a":1.0 }';
    await harness.submit("a", {
      payload,
      headers: { "X-Mine": "kept" },
      metadata: { userid: "alice" },
      endpoint: "/v1/embeddings",
    });
    harness.start();
    await harness.run(20_000);
    expect(harness.gateway.requests).toHaveLength(3);
    for (const { body, headers, url } of harness.gateway.requests) {
      expect(Buffer.from(body).toString()).toBe(payload);
      expect(header(headers, "x-mine")).toBe("kept");
      expect(header(headers, "x-llm-d-inference-fairness-id")).toBe("alice");
      expect(url.pathname).toBe("/v1/embeddings");
    }
  });
});

describe("a transform (A-73)", () => {
  const file = '{"requestTransforms":[{"name":"gcs","type":"gcs_uri_multipart","parameters":{"providers":["p"]}}]}';
  const transforms = () => requestTransforms(parseDocument(file, { file: "t.json" }), new SeededRandom(3));

  it("sets the Content-Type of this attempt and leaves the message as it was", async () => {
    const harness = new Harness({ transforms: transforms() });
    harness.gateway.reply = (_, attempt) => (attempt < 3 ? answer(503) : OK);
    await harness.submit("a", {
      payload: { gcs_uri: "gs://bucket/file", language: "en" },
      metadata: { provider: "p" },
      headers: { "Content-Type": "application/json; charset=utf-8" },
    });
    harness.start();
    await harness.run(100);
    const parked = harness.store.parked.peek(1)[0]!;
    expect(parked.text).not.toContain("multipart");
    expect(parked.text).toContain('"Content-Type":"application/json; charset=utf-8"');
    await harness.run(30_000);
    expect(harness.resultOf("a")?.statusCode).toBe(200);
    for (const { headers, body } of harness.gateway.requests) {
      const type = header(headers, "content-type")!;
      const boundary = /^multipart\/form-data; boundary=(.+)$/.exec(type)?.[1];
      expect(boundary).toBeDefined();
      expect(Buffer.from(body).toString().startsWith(`--${boundary}`)).toBe(true);
      expect(headers.filter((name, i) => i % 2 === 0 && name.toLowerCase() === "content-type")).toHaveLength(1);
    }
  });

  it("that does not own a message leaves body and Content-Type to the caller", async () => {
    const harness = new Harness({ transforms: transforms() });
    const headers = { "content-type": "application/vnd.mine+json" };
    await harness.submit("a", { payload: '{"gcs_uri":"gs://x"}', metadata: { provider: "other" }, headers });
    await harness.submit("b", { payload: '{"prompt":1}' });
    harness.start();
    await harness.run(100);
    const types = harness.gateway.requests.map(({ headers: sent }) => header(sent, "content-type")).sort();
    expect(types).toEqual(["application/json", "application/vnd.mine+json"]);
  });

  it("whose validation fails ends the message before it takes a place at the pool's gate", async () => {
    let asked = 0;
    const gate = {
      capacities: [],
      budget: async () => 1,
      apply: () => {
        asked++;
        return { kind: "wait" } as const;
      },
    };
    const harness = new Harness({ transforms: transforms(), gates: { "pool:default": gate } });
    const uri = "https://storage.googleapis.com/b/o?X-Goog-Date=20200101T000000Z&X-Goog-Expires=60";
    await harness.submit("a", { payload: { gcs_uri: uri }, metadata: { provider: "p" } });
    harness.start();
    await harness.run(1000);
    expect(harness.resultOf("a")).toMatchObject({ statusCode: 0, errorCode: "INVALID_REQUEST" });
    expect(harness.resultOf("a")?.errorMessage).toMatch(
      /^Failed to validate request for transform: transform gcs\/gcs_uri_multipart: /,
    );
    expect(asked).toBe(0);
    expect(harness.metric("failed_requests_total")).toBe(1);
  });
});
