import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ConfigFeed } from "../../src/wires/admin/feed/config.ts";
import type { DecisionDetail, DecisionsFeed } from "../../src/wires/admin/feed/decisions.ts";
import type { EndpointDetail, EndpointsFeed } from "../../src/wires/admin/feed/endpoints.ts";
import type { FeedHello } from "../../src/wires/admin/feed/feed.ts";
import type { Overview } from "../../src/wires/admin/feed/overview.ts";
import { ask, chat, getJson, JSON_HEADERS } from "../support/client.ts";
import { freePort } from "../support/free-port.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { type Sim, startSims } from "../support/stack.ts";

const SECRET = "the-prompt-that-nobody-may-see";
const FOLDER = mkdtempSync(join(tmpdir(), "sluice-feed-"));
const CONFIG = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- {type: queue-scorer}
- {type: prefix-cache-scorer}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
`;

/** The samples of a page of metrics, summed by name and, where given, the value of one label. */
function sum(page: string, name: string, label = ""): number {
  let total = 0;
  for (const line of page.split("\n")) {
    const found = /^(\w+)(\{.*\})? (\S+)/.exec(line);
    if (found?.[1] === name && (found[2] ?? "").includes(label)) total += Number(found[3]);
  }
  return total;
}

describe("what the gateway tells its page", () => {
  let sims: Sim[];
  let gateway: TestGateway;
  const get = <T>(path: string): Promise<T> => getJson<T>(`${gateway.adminUrl}/debug/feed${path}`);

  beforeAll(async () => {
    sims = await startSims(2);
    const ports = [...sims.map(({ port }) => port), await freePort()];
    const entries = ports.map(
      (port, i) => `- { name: server-${i + 1}, address: 127.0.0.1, port: ${port}, labels: { zone: z${i} } }`,
    );
    writeFileSync(join(FOLDER, "endpoints.yaml"), `endpoints:\n${entries.join("\n")}\n`);
    writeFileSync(join(FOLDER, "config.yaml"), CONFIG);
    gateway = await startGateway(join(FOLDER, "endpoints.yaml"), ["--config-file", join(FOLDER, "config.yaml")]);
    await poll("the absent server is down", async () => (await get<EndpointsFeed>("/endpoints")).states.down === 1);
    const usage = { stream: true, stream_options: { include_usage: true } };
    const send = (id: string, body: string): Promise<unknown> =>
      ask(`${gateway.url}/v1/chat/completions`, { headers: { ...JSON_HEADERS, "x-request-id": id }, body });
    for (let i = 0; i < 6; i++) await send(`feed-stream-${i}`, chat(`${SECRET} ${"x".repeat(400)}`, usage));
    for (let i = 0; i < 3; i++) await send(`feed-whole-${i}`, chat(SECRET));
    await send("feed-bad", "{");
    await send("feed-unknown", chat(SECRET, { model: "no-such-model" }));
  });
  afterAll(async () => {
    await gateway?.process.stop();
    await Promise.all((sims ?? []).map((sim) => sim.process.stop()));
  });

  it("equals /metrics: requests, tokens, times", async () => {
    const overview = await poll("the second of the last request is full", async () => {
      const now = await get<Overview>("/overview");
      const ended = Object.values(now.windows.all.requestsPerSecond).reduce((a, b) => a + b, 0);
      return Math.round(ended * now.windows.all.seconds) >= 11 ? now : undefined;
    });
    const page = (await ask(`${gateway.adminUrl}/metrics`)).text;
    const { requests, tokens, routed } = overview.totals;
    const exchanges = (outcome: string): number => sum(page, "sluice_exchanges_total", `outcome="${outcome}"`);
    expect(requests.answered! + requests["server-error"]!).toBe(exchanges("complete"));
    expect(requests.refused).toBe(exchanges("rejected"));
    expect(requests.refused! + requests.answered!).toBe(11);
    expect(requests.cancelled).toBe(exchanges("client-gone"));
    expect(routed).toBe(sum(page, "llm_d_epp_request_total"));
    expect(tokens.prompt).toBe(sum(page, "llm_d_epp_request_input_tokens_sum"));
    expect(tokens.output).toBe(sum(page, "llm_d_epp_request_output_tokens_sum"));
    expect(tokens.output).toBeGreaterThan(0);
    expect(tokens.cached).toBe(sum(page, "llm_d_epp_request_cached_tokens_sum"));
    // The same seconds once more: the columns of the ring add up to the totals.
    const column = (name: "requests.answered" | "tokens.output" | "started"): number =>
      overview.figures[name]!.reduce<number>((total, value) => total + (value ?? 0), 0);
    expect(column("requests.answered")).toBe(requests.answered);
    expect(column("tokens.output")).toBe(tokens.output);
    expect(column("started")).toBe(11);
    expect(overview.windows.all.errors.map(({ cause }) => cause).sort()).toEqual(["bad_request", "upstream_connect"]);
    // A bucket of the ring is 18 % wide; that of /metrics says at least that much.
    const mean =
      sum(page, "llm_d_epp_request_duration_seconds_sum") / sum(page, "llm_d_epp_request_duration_seconds_count");
    expect(overview.windows.all.durationMs.p99).toBeGreaterThan(mean * 1000 * 0.8);
    expect(overview.windows.all.predictedHitRate).toBeGreaterThan(0);
    expect(overview.windows.all.predictedHitRate).toBeLessThanOrEqual(1);
    // The second of the start has no value: each second is measured at its begin.
    const measured = await poll("a second that was measured", async () => {
      const waiting = (await get<Overview>("/overview")).figures.waiting!.filter((value) => value !== null);
      return waiting.length > 0 ? waiting : undefined;
    });
    expect(measured.at(-1)).toBe(0);
  });

  it("shows endpoints with their traffic, their states and who was left out", async () => {
    const feed = await get<EndpointsFeed>("/endpoints");
    expect([feed.total, feed.matched, feed.states]).toEqual([3, 3, { up: 2, blind: 0, down: 1 }]);
    expect(feed.labels).toEqual({ zone: ["z0", "z1", "z2"] });
    const page = (await ask(`${gateway.adminUrl}/metrics`)).text;
    for (const [at, { id }] of feed.endpoints.entries()) {
      const [, name] = id.split("/");
      expect(feed.columns.requests[at]).toBe(
        sum(page, "llm_d_epp_scheduler_attempts_total", `endpoint_name="${name}"`),
      );
    }
    expect(feed.columns.share.reduce<number>((total, share) => total + (share ?? 0), 0)).toBeCloseTo(1, 2);
    expect(feed.leftOut.reasons.map(({ reason }) => reason)).toContain("down");
    const narrow = await get<EndpointsFeed>("/endpoints?label=zone%3Dz1&state=up");
    expect(narrow.endpoints.map(({ id }) => id)).toEqual(["default/server-2"]);
    const one = await get<EndpointDetail>("/endpoint?id=default%2Fserver-3");
    expect(one.endpoint.state).toBe("down");
    expect(one.timeline.at(-1)).toMatchObject({ state: "down" });
    expect(one.spark.inFlight).toHaveLength(one.spark.kvUsage.length);
    expect((await ask(`${gateway.adminUrl}/debug/feed/endpoint?id=nobody`)).status).toBe(404);
  });

  it("finds decisions, and tells the way of a request", async () => {
    const by = async (query: string): Promise<readonly string[]> =>
      (await get<DecisionsFeed>(`/decisions?${query}`)).rows.map(({ requestId }) => requestId);
    expect(await by("q=feed-stream&limit=200")).toHaveLength(6);
    // Only the absent server may serve this model: nobody knows its list. So the attempt fails.
    expect(await by("reason=failed")).toEqual(["feed-unknown"]);
    expect(await by("reason=refused")).toEqual([]);
    expect(await by("model=no-such-model")).toEqual(["feed-unknown"]);
    expect(await by("endpoint=default%2Fserver-3")).toEqual(["feed-unknown"]);
    const all = await get<DecisionsFeed>("/decisions?limit=4");
    expect(await by(`before=${all.next}&limit=200`)).toHaveLength(6);
    const { row, journey, explanation, configInForce, record } =
      await get<DecisionDetail>("/decision?id=feed-stream-0");
    expect(configInForce).toBe(true);
    expect(explanation.candidates.length).toBeGreaterThan(1);
    expect(record["requestId"]).toBe("feed-stream-0");
    expect(row.journey).toMatchObject({ outcome: "answered", status: 200, outputTokens: 5, attempts: 1 });
    expect(journey.steps.map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(["received", "decided", "attempt", "first-token", "end"]),
    );
    const times = journey.steps.map(({ ms }) => ms);
    expect(times).toEqual([...times].sort((a, b) => a - b));
  });

  it("says what is in force, and where it comes from", async () => {
    const { settings, picker } = await get<ConfigFeed>("/config");
    expect(settings.find(({ name }) => name === "picker.configFile")).toMatchObject({ source: "flag" });
    expect(settings.find(({ name }) => name === "retries.max")).toMatchObject({ source: "default", value: "2" });
    expect(picker?.text).toContain("weight: 3");
    expect(picker?.text).toContain("weight: 3 # line 11");
    expect(picker?.flowControl).toBe(true);
    writeFileSync(join(FOLDER, "config.yaml"), CONFIG.replace("weight: 3", "weight: 4"));
    const changed = await poll("the change is told", async () => {
      const now = await get<ConfigFeed>("/config");
      return now.reloads.length > 0 ? now : undefined;
    });
    expect(changed.reloads[0]).toMatchObject({ result: "applied" });
    expect(changed.reloads[0]!.difference).toEqual([
      "-   - {pluginRef: prefix-cache-scorer, weight: 3}",
      "+   - {pluginRef: prefix-cache-scorer, weight: 4}",
    ]);
    expect(changed.picker!.hash).not.toBe(picker!.hash);
    writeFileSync(join(FOLDER, "config.yaml"), "nonsense: 1\n");
    const refused = await poll("the refusal is told", async () => {
      const now = await get<ConfigFeed>("/config");
      return now.reloads[0]?.result === "refused" ? now : undefined;
    });
    expect(refused.reloads[0]!.problems).toContain("config.yaml:1");
    expect(refused.picker!.hash).toBe(changed.picker!.hash);
    const { events } = await get<Overview>("/overview");
    expect(events.map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(["endpoint-down", "config-changed", "config-refused"]),
    );
  });

  it("streams, and continues behind the last event id", async () => {
    const read = async (query: string, enough: (text: string) => boolean, headers = {}): Promise<string> => {
      const over = new AbortController();
      const answer = await fetch(`${gateway.adminUrl}/debug/feed/stream${query}`, { signal: over.signal, headers });
      expect(answer.headers.get("content-type")).toBe("text/event-stream");
      let text = "";
      for await (const chunk of answer.body!) {
        text += new TextDecoder().decode(chunk);
        if (enough(text)) break;
      }
      over.abort();
      return text;
    };
    const topics = "?topics=overview,events,endpoints,decisions,queues";
    const first = await read(topics, (text) => text.split("event: tick").length > 2);
    for (const event of ["hello", "endpoints", "loads", "queues", "tick"]) expect(first).toContain(`event: ${event}\n`);
    const ids = [...first.matchAll(/^id: (\S+)$/gm)].map(([, id]) => id!);
    await ask(`${gateway.url}/v1/chat/completions`, {
      headers: { ...JSON_HEADERS, "x-request-id": "feed-while-away" },
      body: chat(SECRET),
    });
    const again = await read(
      "?topics=overview,decisions",
      (text) => text.includes("feed-while-away") && text.includes('"second"'),
      {
        "last-event-id": ids.at(-1)!,
      },
    );
    expect(again).not.toContain("event: gap");
    const seconds = [...again.matchAll(/"second":(\d+)/g)].map(([, second]) => Number(second));
    expect(seconds[0]).toBe(Number(ids.at(-1)!.split(".")[1]) + 1);
    await poll("the process knows that its readers left", async () => (await get<FeedHello>("")).readers.open === 0);
  });

  it("gives away neither prompts nor keys, and refuses what it does not know", async () => {
    for (const path of [
      "",
      "/overview",
      "/endpoints",
      "/decisions?limit=200",
      "/decision?id=feed-stream-0",
      "/queues",
      "/config",
    ])
      expect((await ask(`${gateway.adminUrl}/debug/feed${path}`)).text).not.toContain(SECRET);
    for (const path of [
      ...["/overview?second=1", "/overview?seconds=0", "/overview?seconds=901", "?x=1", "/decisions?limit=201"],
      ...["/decisions?before=x", "/endpoints?state=upp", "/endpoints?label=x", "/endpoint", "/stream?topics=none"],
      ...["/stream?model=sim", "/history", "/history?figure=up", "/history?figure=ttft&span=1y", "/events?after=-1"],
    ]) {
      const { status, text } = await ask(`${gateway.adminUrl}/debug/feed${path}`);
      expect([path, status]).toEqual([path, 400]);
      expect(JSON.parse(text)).toHaveProperty("error");
    }
    expect((await ask(`${gateway.adminUrl}/debug/feed/history?figure=ttft`)).status).toBe(404);
    expect((await ask(`${gateway.adminUrl}/debug/feed/overview`, { method: "POST" })).status).toBe(405);
  });
});
