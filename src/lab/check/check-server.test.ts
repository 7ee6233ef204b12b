import type { ServerResponse } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import {
  closeFakeServers,
  fakeServer,
  GOOD_PAGE,
  goodEvents,
  NOW,
  type SeenRequest,
  withPage,
} from "../../../test/support/check/fake-server.cases.ts";
import { deadPort } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { realClock } from "../../base/clock/real.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseSimOptions } from "../simulator/options.ts";
import { startSimulator } from "../simulator/server.ts";
import { type CheckReport, checkServer } from "./check-server.ts";
import type { CheckOptions } from "./options.ts";
import { reportJson, summaryLine, verdictLine } from "./report.ts";
import type { ObligationName } from "./verdict.ts";

const TIMEOUT = 1000;

afterEach(closeFakeServers);

function check(origin: string, more: Partial<CheckOptions> = {}, clock = new VirtualClock(NOW * 1000)) {
  const options: CheckOptions = {
    origin,
    metricsPath: "/metrics",
    engine: undefined,
    metricNames: {},
    model: undefined,
    lora: undefined,
    headers: [],
    timeout: TIMEOUT,
    skipGeneration: false,
    ...more,
  };
  return checkServer(options, clock);
}

/** The verdicts other than `ok`, as `result obligation`. */
const notOk = ({ verdicts }: CheckReport) =>
  verdicts.filter(({ result }) => result !== "ok").map(({ result, obligation }) => `${result} ${obligation}`);

const of = ({ verdicts }: CheckReport, name: ObligationName) => verdicts.find(({ obligation }) => obligation === name)!;

describe("a server that keeps its obligations", () => {
  it("the simulator: everything is ok, with a picker's handful of requests", async () => {
    const simulator = await startSimulator(
      parseSimOptions({ host: "127.0.0.1", port: "0", "enable-kvcache": "true", "lora-modules": ["sql=/x"] }, {}),
    );
    try {
      const report = await check(simulator.url, {}, new VirtualClock(realClock.wall()));
      expect(report.verdicts.map(verdictLine).filter((line) => !line.startsWith("ok"))).toEqual([]);
      expect(report.verdicts).toHaveLength(19);
      expect(report).toMatchObject({ exitStatus: 0, engine: "vllm", model: "sim" });
    } finally {
      await simulator.close();
    }
  });

  it("is told so, in at most ten requests of at most four tokens each", async () => {
    const server = await fakeServer();
    const report = await check(server.origin);
    expect(notOk(report)).toEqual([]);
    expect(report.exitStatus).toBe(0);
    expect(summaryLine(report)).toBe(
      "19 ok, 0 warn, 0 FAIL, 0 skip: the server meets every MUST that was checked (metrics of vllm, model tiny)",
    );
    expect(server.requests.map(({ method, path }) => `${method} ${path}`).sort()).toEqual([
      "GET /metrics",
      "GET /metrics",
      "GET /v1/models",
      "POST /v1/chat/completions",
      "POST /v1/chat/completions",
      ...new Array<string>(5).fill("POST /v1/completions"),
    ]);
    for (const { json } of server.requests.filter(({ method }) => method === "POST"))
      expect(json).toMatchObject({ max_tokens: 4 });
  });

  it("may have no adapters, no model list that is needed and no cache to speak of", async () => {
    const page = GOOD_PAGE.replaceAll(/^.*(lora|cache_config|prefix).*\n/gm, "");
    const server = await fakeServer(({ path }, response) => {
      if (path === "/metrics") response.writeHead(200, { "content-type": "text/plain" }).end(page);
      else if (path === "/v1/models")
        response.writeHead(200, { "content-type": "application/json" }).end('{"data":[{"id":"tiny"}]}');
      else return false;
      return true;
    });
    const report = await check(server.origin);
    expect(notOk(report)).toEqual(["skip adapter", "skip lora", "skip loraWaiting", "skip cacheConfig"]);
    expect(report.exitStatus).toBe(0);
  });

  it("is sent nothing that makes the model work, where that is not wanted", async () => {
    const server = await fakeServer();
    const report = await check(server.origin, { skipGeneration: true });
    expect(server.requests.map(({ path }) => path)).toEqual(["/metrics", "/v1/models"]);
    expect(report.exitStatus).toBe(0);
    expect(of(report, "completions")).toMatchObject({ result: "skip", seen: "--skip-generation" });
    expect(of(report, "kvUsage").result).toBe("ok");
  });

  it("is checked with the metric names that the flags give", async () => {
    const page = GOOD_PAGE.replaceAll("vllm:num_requests_waiting", "acme_queue")
      .replaceAll("vllm:kv_cache_usage_perc{", 'acme_kv{kind="share",')
      .replaceAll("vllm:kv_cache_usage_perc", "acme_kv");
    const server = await withPage(page);
    expect(notOk(await check(server.origin, { skipGeneration: true, engine: "vllm" })).slice(-3)).toEqual([
      "FAIL queued",
      "FAIL kvUsage",
      "skip prefixReuse",
    ]);
    const report = await check(server.origin, {
      metricNames: { queued: "acme_queue", kvUsage: "acme_kv{kind=share}" },
      model: "tiny",
      lora: "sql",
    });
    expect(notOk(report)).toEqual([]);
    expect(of(report, "kvUsage").seen).toBe('acme_kv{kind="share"} is a gauge, now 0.25');
  });

  it.each([
    ["sglang", "sglang:num_queue_reqs", "sglang:num_running_reqs", "sglang:token_usage"],
    [
      "triton-tensorrt-llm",
      'nv_trt_llm_request_metrics{request_type="waiting"}',
      'nv_trt_llm_request_metrics{request_type="scheduled"}',
      'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"}',
    ],
  ])("is recognised by its metrics: %s", async (engine, queued, running, kv) => {
    const names = [...new Set([queued, running, kv].map((name) => name.split("{")[0]!))];
    const types = names.map((name) => `# TYPE ${name} gauge\n`).join("");
    const server = await withPage(`${types}${queued} 3\n${running} 2\n${kv} 0.5\n`);
    const report = await check(server.origin, { skipGeneration: true });
    expect(report.engine).toBe(engine);
    for (const name of ["queued", "running", "kvUsage"] as const) expect(of(report, name).result).toBe("ok");
  });
});

/** A line of the good page replaced by others. */
const edit = (from: RegExp, to: string) => {
  const page = GOOD_PAGE.replace(from, to);
  if (page === GOOD_PAGE) throw new Error(`${from} is not on the page`);
  return page;
};

describe("metrics that break the protocol", () => {
  it.each<[string, string, string, ObligationName, string, string]>([
    ["0 to 100", edit(/0\.25/, "37.5"), "FAIL", "kvUsage", "its range seems to be 0 to 100", "divide it by 100"],
    ["above 100", edit(/0\.25/, "2048"), "FAIL", "kvUsage", "is 2048", "from 0 to 1"],
    ["below 0", edit(/0\.25/, "-0.1"), "FAIL", "kvUsage", "is -0.1", "from 0 to 1"],
    ["NaN", edit(/0\.25/, "NaN"), "FAIL", "kvUsage", "is NaN", "from 0 to 1"],
    [
      "missing",
      edit(/^.*kv_cache.*\n.*kv_cache.*\n/m, ""),
      "FAIL",
      "kvUsage",
      "nor vllm:gpu_cache_usage_perc",
      "expose",
    ],
    ["a counter", edit(/waiting gauge/, "waiting counter"), "FAIL", "queued", "is a counter", "make it a gauge"],
    ["without type", edit(/# TYPE vllm:num_requests_waiting gauge\n/, ""), "FAIL", "queued", "no type", "# TYPE vllm:"],
    ["negative", edit(/"} 0\.0/, '"} -1'), "FAIL", "queued", "is -1, below 0", "how many requests"],
    ["a mean", edit(/"} 0\.0/, '"} 0.5'), "FAIL", "queued", "not a whole number", "not a mean"],
    ["infinite", edit(/"} 0\.0/, '"} +Inf'), "FAIL", "queued", "is Infinity", "always report a number"],
    [
      "running missing",
      edit(/^.*running.*gauge\n.*running.*\n/m, ""),
      "warn",
      "running",
      "not on the page",
      "expose it",
    ],
    ["garbage", edit(/"} 0\.0/, '"} many'), "FAIL", "page", "1 lines, of metrics", "NAME{"],
    ["no max_lora", edit(/max_lora="4",/, ""), "FAIL", "lora", "no label max_lora", "fit in one batch"],
    ["odd max_lora", edit(/max_lora="4"/, 'max_lora="four"'), "FAIL", "lora", 'max_lora is "four"', "whole number"],
    ["no running", edit(/running_lora_adapters="sql, poet",/, ""), "FAIL", "lora", "no label running_lora", "comma"],
    ["no waiting", edit(/,waiting_lora_adapters=""/, ""), "warn", "loraWaiting", "no label waiting_lora", "queue"],
    ["milliseconds", edit(/\} 1767323040\.5/, "} 1767323040500"), "FAIL", "lora", "in milliseconds", "in seconds"],
    ["nanoseconds", edit(/\} 1767323040\.5/, "} 1.7673230405e18"), "FAIL", "lora", "in nanoseconds", "in seconds"],
    ["no stamp", edit(/\} 1767323040\.5/, "} 1"), "FAIL", "lora", "is 1, not a time", "Unix time"],
    ["tomorrow's stamp", edit(/\} 1767323040\.5/, "} 1777323040"), "FAIL", "lora", "in the future", "Unix time"],
    ["a LoRA counter", edit(/info gauge/, "info counter"), "FAIL", "lora", "is a counter", "make it a gauge"],
    ["no LoRA family", edit(/^.*lora(.|\n)*lora.*\n/m, ""), "FAIL", "lora", "has adapters, but", "expose it"],
    ["odd blocks", edit(/"2048"/, '"None"'), "warn", "cacheConfig", 'num_gpu_blocks is "None"', "whole number"],
    [
      "two ranks",
      edit(/(vllm:num_requests_running)\{.*\n/, '$1{engine="0"} 1\n$1{engine="1"} 2\n'),
      "warn",
      "running",
      "2 series",
      "one series per port",
    ],
  ])("%s", async (_, page, result, obligation, seen, remedy) => {
    const server = await withPage(page);
    const report = await check(server.origin, { skipGeneration: true });
    const verdict = of(report, obligation);
    expect(verdict.result).toBe(result);
    expect(verdict.seen).toContain(seen);
    expect(verdict.remedy).toContain(remedy);
    expect(report.exitStatus).toBe(result === "FAIL" ? 1 : 0);
    // Nothing else is blamed.
    expect(notOk(report).filter((line) => !line.startsWith("skip"))).toContain(`${result} ${obligation}`);
    if (obligation !== "page") expect(notOk(report).filter((line) => line.startsWith("FAIL")).length).toBeLessThan(2);
  });

  it.each<[string, string, string, string, string]>([
    [
      "<!doctype html><title>Welcome</title>\n<p>Hello 1 world",
      "text/html",
      "FAIL",
      "a page of HTML",
      "--metrics-path",
    ],
    ["", "text/plain", "FAIL", "an empty body", "--metrics-path"],
    [`a${" ".repeat(2 ** 20)}x`, "text/plain", "FAIL", "without a sample", "--metrics-path"],
    ['{"waiting": 0}', "application/json", "FAIL", '{"waiting": 0}', "Prometheus text format"],
    [GOOD_PAGE, "application/octet-stream", "warn", '"application/octet-stream"', "text/plain"],
    [`${GOOD_PAGE}${"x 1\n".repeat(1_100_000)}`, "text/plain", "FAIL", "larger than 4194304 bytes", "fewer series"],
  ])("the page %.40s of type %s", async (page, type, result, seen, remedy) => {
    const server = await withPage(page, type);
    const report = await check(server.origin, { skipGeneration: true });
    expect(of(report, "page").result).toBe(result);
    expect(of(report, "page").seen).toContain(seen);
    expect(of(report, "page").remedy).toContain(remedy);
    expect(report.exitStatus).toBe(result === "FAIL" ? 1 : 0);
  });

  it.each([
    [500, "answered 500: out of memory", "--metrics-path"],
    [404, "answered 404: out of memory", "--metrics-path"],
    [401, "answered 401", "without credentials"],
  ])("a page behind %d", async (status, seen, remedy) => {
    const server = await fakeServer(({ path }, response) => {
      if (path !== "/metrics") return false;
      response.writeHead(status).end('{"error":{"message":"out of memory"}}');
      return true;
    });
    const report = await check(server.origin, { skipGeneration: true });
    expect(of(report, "page")).toMatchObject({ result: "FAIL", seen: expect.stringContaining(seen) });
    expect(of(report, "page").remedy).toContain(remedy);
    expect(of(report, "kvUsage")).toMatchObject({ result: "skip", inconclusive: true });
    expect(report.exitStatus).toBe(1);
  });

  it("of any length: thousands of series are counted, not kept", async () => {
    const series = Array.from(
      { length: 3000 },
      (_, i) =>
        `vllm:lora_requests_info{max_lora="4",running_lora_adapters="a${i}",waiting_lora_adapters=""} ${NOW - 9 - i}\n`,
    ).join("");
    const server = await withPage(edit(/^vllm:lora_requests_info/m, `${series}vllm:lora_requests_info`));
    const verdict = of(await check(server.origin, { skipGeneration: true }), "lora");
    expect(verdict).toMatchObject({ result: "warn", seen: "vllm:lora_requests_info has 3002 series" });
  });

  it("without end: no more than the limit is read", async () => {
    const server = await fakeServer(({ path }, response) => {
      if (path !== "/metrics") return false;
      const more = (): void => {
        while (!response.destroyed && response.write(GOOD_PAGE.repeat(100)));
      };
      response.writeHead(200, { "content-type": "text/plain" }).on("drain", more);
      more();
      return true;
    });
    // The clock stands still: it is not the timeout that ends it.
    const report = await check(server.origin, { skipGeneration: true });
    expect(of(report, "page").seen).toBe("the page is larger than 4194304 bytes");
  });

  it("that appear only under load: the page is read again afterwards", async () => {
    let readings = 0;
    const server = await fakeServer(({ path }, response) => {
      if (path !== "/metrics" || ++readings === 1) return false;
      response.writeHead(200, { "content-type": "text/plain" }).end(GOOD_PAGE.replace("0.25", "25"));
      return true;
    });
    expect(notOk(await check(server.origin))).toEqual(["FAIL kvUsage"]);
  });
});

type Answering = (request: SeenRequest, response: ServerResponse) => boolean;

/** Answers the requests that `matches` with a body of one's own. */
const instead =
  (matches: (request: SeenRequest) => boolean, status: number, body: string, type = "application/json"): Answering =>
  (request, response) => {
    if (!matches(request)) return false;
    response.writeHead(status, { "content-type": type }).end(body);
    return true;
  };
const whole =
  (path: string) =>
  ({ path: asked, json }: SeenRequest) =>
    asked === path && json.stream !== true && json.model === "tiny";
const streamed =
  (path: string) =>
  ({ path: asked, json }: SeenRequest) =>
    asked === path && json.stream === true;
const events = (...data: string[]) => data.map((one) => `data: ${one}\n\n`).join("");
const [HI, COUNTS] = goodEvents(false, "tiny");
const TEXT = "/v1/completions";
const CHAT = "/v1/chat/completions";
const SSE = "text/event-stream";

describe("APIs that break the protocol", () => {
  it.each<[string, Answering, string[], ObligationName, string, string]>([
    [
      "500s",
      instead(({ method }) => method === "POST", 500, '{"error":{"message":"boom"}}'),
      [
        "FAIL completions",
        "skip completionsUsage",
        "FAIL completionsStream",
        "skip completionsStreamUsage",
        "FAIL chat",
        "skip chatUsage",
        "FAIL chatStream",
        "skip chatStreamUsage",
        "warn unknownModel",
        "FAIL adapter",
      ],
      "completions",
      "POST /v1/completions answered 500: boom",
      "read the log of the server",
    ],
    [
      "HTML",
      instead(whole(TEXT), 200, "<html>hi</html>", "text/html"),
      ["FAIL completions", "skip completionsUsage"],
      "completions",
      "a page of HTML: <html>hi</html>",
      "JSON object",
    ],
    [
      "no chat",
      instead(({ path }) => path === CHAT, 404, "{}"),
      ["FAIL chat", "skip chatUsage", "FAIL chatStream", "skip chatStreamUsage"],
      "chat",
      "answered 404",
      "serve this path",
    ],
    ["busy", instead(whole(CHAT), 503, ""), ["FAIL chat", "skip chatUsage"], "chat", "503: an empty body", "try again"],
    ["a redirect", instead(whole(CHAT), 307, ""), ["FAIL chat", "skip chatUsage"], "chat", "307", "answer 200"],
    [
      "no text",
      instead(
        whole(TEXT),
        200,
        '{"object":"text_completion","model":"tiny","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}',
      ),
      ["FAIL completions"],
      "completions",
      "no string at choices[0].text",
      "shape",
    ],
    [
      "other names",
      instead(
        whole(TEXT),
        200,
        '{"object":"x","model":"y","choices":[{"text":"a"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":3}}',
        "text/plain",
      ),
      ["warn completions", "warn completionsUsage"],
      "completions",
      'the model in the answer is "y"',
      "model name of the request",
    ],
    [
      "no usage",
      instead(
        whole(CHAT),
        200,
        '{"object":"chat.completion","model":"tiny","choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":-1}}',
      ),
      ["warn chatUsage"],
      "chatUsage",
      "usage.prompt_tokens is -1; usage.completion_tokens is missing",
      "whole numbers",
    ],
    [
      "no stream",
      instead(streamed(TEXT), 200, '{"choices":[]}'),
      ["FAIL completionsStream", "skip completionsStreamUsage"],
      "completionsStream",
      'content type of the stream is "application/json"',
      "text/event-stream",
    ],
    [
      "no [DONE]",
      instead(streamed(TEXT), 200, events(HI!, COUNTS!), SSE),
      ["FAIL completionsStream"],
      "completionsStream",
      "does not end with data: [DONE]",
      "last event",
    ],
    [
      "[DONE] too early",
      instead(streamed(TEXT), 200, events(HI!, COUNTS!, "[DONE]", HI!), SSE),
      ["FAIL completionsStream"],
      "completionsStream",
      "follow data: [DONE]",
      "last event",
    ],
    [
      "no usage in a stream",
      instead(streamed(TEXT), 200, events(HI!, "[DONE]"), SSE),
      ["warn completionsStreamUsage"],
      "completionsStreamUsage",
      "no usage in the stream",
      "include_usage",
    ],
    [
      "empty stream",
      instead(streamed(TEXT), 200, events("[DONE]"), SSE),
      ["FAIL completionsStream", "warn completionsStreamUsage"],
      "completionsStream",
      "no event has choices[0].text",
      "shape",
    ],
    [
      "broken events",
      instead(streamed(TEXT), 200, events("{", HI!, COUNTS!, "[DONE]"), SSE),
      ["FAIL completionsStream"],
      "completionsStream",
      "event 1 is not a JSON object",
      "one JSON object",
    ],
    [
      "an error event",
      instead(streamed(TEXT), 200, events(HI!, '{"error":{"message":"out of blocks"}}', COUNTS!, "[DONE]"), SSE),
      ["FAIL completionsStream"],
      "completionsStream",
      "out of blocks",
      "log",
    ],
    [
      "an endless stream",
      instead(streamed(TEXT), 200, events(HI!).repeat(20_000), SSE),
      ["FAIL completionsStream", "warn completionsStreamUsage"],
      "completionsStream",
      "the stream has more than 1048576 bytes",
      "max_tokens",
    ],
    [
      "any model",
      instead(({ json }) => json.model?.startsWith("sluice-check") === true, 200, "{}"),
      ["warn unknownModel"],
      "unknownModel",
      "was served",
      "404",
    ],
    [
      "a wrong refusal",
      instead(({ json }) => json.model?.startsWith("sluice-check") === true, 400, '{"detail":"what?"}'),
      ["warn unknownModel"],
      "unknownModel",
      "answered 400: what?",
      "404",
    ],
    [
      "no adapter",
      instead(({ json }) => json.model === "sql", 404, "{}"),
      ["FAIL adapter"],
      "adapter",
      "with model sql answered 404",
      "serve",
    ],
    ["no list", instead(({ path }) => path === "/v1/models", 200, "[]"), [], "models", "without a list", "data"],
  ])("%s", async (_, answer, found, obligation, seen, remedy) => {
    const server = await fakeServer(answer);
    const report = await check(server.origin, { model: "tiny", lora: "sql" });
    expect(notOk(report).filter((line) => !/ (models|prefixReuse)$/.test(line))).toEqual(found);
    expect(of(report, obligation).seen).toContain(seen);
    expect(of(report, obligation).remedy).toContain(remedy);
    expect(report.exitStatus).toBe(found.some((line) => line.startsWith("FAIL")) ? 1 : 0);
  });

  it("a cache that forgets", async () => {
    const answer =
      '{"object":"text_completion","model":"tiny","choices":[{"text":"a"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}';
    // Usage does not tell, the counter stands still.
    const still = await fakeServer(instead(whole(TEXT), 200, answer));
    expect(of(await check(still.origin), "prefixReuse")).toMatchObject({ result: "warn", level: "SHOULD" });
    let hits = 0;
    const counting = await fakeServer((request, response) => {
      if (request.path !== "/metrics") return instead(whole(TEXT), 200, answer)(request, response);
      hits += 16;
      response.writeHead(200, { "content-type": "text/plain" });
      response.end(GOOD_PAGE.replace("hits_total 48", `hits_total ${hits}`));
      return true;
    });
    expect(of(await check(counting.origin), "prefixReuse")).toMatchObject({
      result: "ok",
      seen: "a prompt sent twice: 16 tokens came from the cache",
    });
  });
});

describe("a server that cannot be checked", () => {
  it("because no server listens there", async () => {
    const port = await deadPort();
    await expect(check(`http://127.0.0.1:${port}`)).rejects.toMatchObject({
      code: "CHECK_UNREACHABLE",
      message: expect.stringMatching(/^cannot connect to http:\/\/127\.0\.0\.1:\d+: .*ECONNREFUSED/),
    });
  });

  it("because it is addressed by https and speaks none", async () => {
    const { origin } = await fakeServer();
    await expect(check(origin.replace("http:", "https:"))).rejects.toMatchObject({
      code: "CHECK_UNREACHABLE",
      message: `cannot connect to ${origin.replace("http:", "https:")}: the server does not speak TLS; try ${origin}`,
    });
  });

  it("because it hangs: three requests wait for their time, the others are not sent", async () => {
    const server = await fakeServer(() => true);
    const clock = new VirtualClock(NOW * 1000);
    const report = check(server.origin, { model: "tiny" }, clock);
    for (let i = 1; i <= 3; i++) {
      await poll("the next request", () => server.requests.length === i);
      clock.advance(TIMEOUT);
    }
    const { verdicts, exitStatus } = await report;
    expect(server.requests.map(({ path }) => path)).toEqual(["/metrics", "/v1/models", "/v1/completions"]);
    expect(exitStatus).toBe(1);
    const lines = verdicts.map(verdictLine);
    expect(lines).toContainEqual(
      "FAIL  completions: POST /v1/completions: no complete answer within 1000 ms (MUST, Inference API Protocol) -> find out what the server waits for, or give it more time with --timeout",
    );
    expect(lines).toContainEqual(
      "skip  chat completions: not sent after 3 requests without an answer (MUST, Inference API Protocol)",
    );
    expect(lines).toContainEqual(
      expect.stringMatching(/^FAIL {2}metrics page: GET \/metrics: no complete answer within/),
    );
  });

  it("because its answers break off", async () => {
    const server = await fakeServer((_, response) => {
      response.writeHead(200, { "content-length": "100" });
      response.write("x", () => response.destroy());
      return true;
    });
    const report = await check(server.origin, { model: "tiny" });
    expect(of(report, "page")).toMatchObject({ result: "FAIL", remedy: expect.stringContaining("cuts the page") });
    expect(of(report, "chatStream")).toMatchObject({
      result: "FAIL",
      remedy: expect.stringContaining("cuts the answer"),
    });
  });

  it("because it asks for credentials: status 2, since no MUST is known to be broken", async () => {
    const server = await fakeServer(({ method, path, headers }, response) => {
      if (path === "/metrics" || headers.authorization === "Bearer sesame-sesame") return false;
      response.writeHead(method === "GET" ? 403 : 401).end(`{"error":{"message":"${headers.authorization}"}}`);
      return true;
    });
    const without = await check(server.origin, { model: "tiny" });
    expect(without.exitStatus).toBe(2);
    expect(of(without, "completions")).toMatchObject({ result: "skip", remedy: expect.stringContaining("--header") });
    expect(notOk(await check(server.origin, { headers: [["Authorization", "Bearer sesame-sesame"]] }))).toEqual([]);
    const wrong = await check(server.origin, { model: "tiny", headers: [["Authorization", "Bearer wrong-key-123"]] });
    expect(of(wrong, "completions").seen).toBe("POST /v1/completions answered 401: ***");
    expect(reportJson(wrong)).not.toContain("wrong-key-123");
  });

  it("because no model is known: 2", async () => {
    const server = await fakeServer(instead(({ path }) => path === "/v1/models", 404, "{}"));
    const report = await check(server.origin);
    expect(report).toMatchObject({ exitStatus: 2, model: undefined });
    expect(of(report, "completions")).toMatchObject({ result: "skip", remedy: "name one with --model" });
    expect(server.requests.filter(({ method }) => method === "POST")).toEqual([]);
  });
});

describe("what is shown", () => {
  it("holds no control characters of the server and stays one bounded line", async () => {
    const body = `{"error":{"message":"\\u001b[31mred\\u009b2J\\n${"x".repeat(5000)}"}}`;
    const server = await fakeServer(instead(whole(TEXT), 500, body));
    const line = verdictLine(of(await check(server.origin), "completions"));
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
    expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
    expect(line.length).toBeLessThan(600);
    expect(line).toContain("[31mred");
  });

  it("is one JSON document on demand", async () => {
    const server = await withPage(edit(/0\.25/, "37.5"));
    const json = JSON.parse(reportJson(await check(server.origin)));
    expect(json).toMatchObject({ url: server.origin, exitStatus: 1, counts: { ok: 18, warn: 0, FAIL: 1, skip: 0 } });
    expect(json.verdicts).toContainEqual({
      result: "FAIL",
      obligation: "kvUsage",
      title: "KVCacheUtilization",
      level: "MUST",
      paragraph: "Metrics Reporting",
      seen: "vllm:kv_cache_usage_perc is 37.5, so its range seems to be 0 to 100",
      remedy: "divide it by 100: the range is 0 to 1",
    });
  });
});
