import { existsSync, mkdtempSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { ask, chat, JSON_HEADERS } from "../support/client.ts";
import { freePort } from "../support/free-port.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { sluice } from "../support/process.ts";
import { endpointsFile, portOf, type Sim, startSims } from "../support/stack.ts";

const CHAT = "/v1/chat/completions";
const SECRET = "Bearer a-token-that-nobody-may-read";

type Line = Readonly<Record<string, string | number | boolean>>;

let sims: Sim[];
let gateway: TestGateway | undefined;
let file = "";

beforeAll(async () => {
  sims = await startSims(1, ["--inter-token-latency", "20"]);
});
afterAll(async () => {
  await Promise.all(sims.map((sim) => sim.process.stop()));
});
afterEach(async () => {
  await gateway?.process.stop();
  gateway = undefined;
});

/** A gateway whose log of requests is a new file. */
async function start(
  which: string,
  servers: readonly number[] | string,
  args: readonly string[] = [],
): Promise<TestGateway> {
  file = join(mkdtempSync(join(tmpdir(), "sluice-requests-")), "requests.log");
  gateway = await startGateway(typeof servers === "string" ? servers : endpointsFile(servers), [
    ...["--request-log", which, "--request-log-file", file, ...args],
  ]);
  return gateway;
}

/** Every line of the file; fails for one that is not JSON. */
function linesIn(path = file): Line[] {
  const text = readFileSync(path, "utf8");
  expect(text === "" || text.endsWith("\n")).toBe(true);
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line);
}

/** The one line about a request. */
async function lineOf(id: string): Promise<Line> {
  await poll(`the line of ${id}`, () => linesIn().some((line) => line["requestId"] === id));
  const found = linesIn().filter((line) => line["requestId"] === id);
  expect(found).toHaveLength(1);
  return found[0]!;
}

/** A configuration that takes the endpoints in turn, and scrapes none of them. */
function inTurn(): string {
  const config = join(mkdtempSync(join(tmpdir(), "sluice-config-")), "config.yaml");
  const profile = "{ name: in-turn, plugins: [{ pluginRef: round-robin-picker }] }";
  writeFileSync(
    config,
    `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{ type: round-robin-picker }]
schedulingProfiles: [${profile}]
dataLayer: { injectDefaults: false }
`,
  );
  return config;
}

/** Starts a gateway whose log of requests goes to its standard output. */
async function startOnStdout(which: string): Promise<TestGateway> {
  gateway = await startGateway(endpointsFile([sims[0]!.port]), ["--request-log", which]);
  return gateway;
}

function headers(id: string): Record<string, string> {
  return { ...JSON_HEADERS, "x-request-id": id, authorization: SECRET, cookie: SECRET };
}

describe("the log of requests of a gateway", () => {
  it("has one line for a stream, a refusal, a client that leaves and bytes that are no HTTP", async () => {
    const { url, port, adminUrl, process } = await start("all", [sims[0]!.port]);
    const body = chat("hello", { stream: true, stream_options: { include_usage: true } });
    const streamed = await ask(`${url}${CHAT}?key=${encodeURIComponent(SECRET)}`, { headers: headers("stream"), body });
    expect(streamed.status).toBe(200);
    const stream = await lineOf("stream");
    expect(stream).toMatchObject({
      ...{ method: "POST", path: CHAT, model: "sim", targetModel: "sim", endpoint: "default/server-1" },
      ...{ status: 200, endCause: "complete", streaming: true, retries: 0, queuedMs: 0, priority: 0 },
      ...{
        completionTokens: 5,
        requestBytes: Buffer.byteLength(body),
        responseBytes: Buffer.byteLength(streamed.text),
      },
      fairnessId: expect.any(String),
    });
    expect(stream["promptTokens"]).toBeGreaterThan(0);
    // Four more tokens follow the first one, 20 ms apart by the clock of the simulator.
    expect(Number(stream["durationMs"]) - Number(stream["ttftMs"])).toBeGreaterThan(0);
    expect(Date.parse(String(stream["time"]))).not.toBeNaN();
    const explained = sluice("explain", String(stream["decision"]), "--admin", adminUrl.slice("http://".length));
    await explained.ended();
    expect(explained.stdout).toContain("stream");

    await ask(`${url}${CHAT}`, { method: "POST", headers: headers("refused"), body: "[]" });
    const refused = await lineOf("refused");
    expect(refused).toMatchObject({ status: 400, reason: "bad_request", endCause: "rejected", requestBytes: 2 });
    expect(refused).not.toHaveProperty("endpoint");

    const left = new AbortController();
    const long = chat("hello", { stream: true, max_tokens: 3000 });
    const gone = ask(`${url}${CHAT}`, { headers: headers("left"), body: long, signal: left.signal });
    gone.catch(() => {});
    const working = async () =>
      (await ask(`${adminUrl}/metrics`)).text.match(/^llm_d_epp_request_streaming_itl_seconds_count\{.*\} (\d+)/m);
    const before = (await working())?.[1];
    await poll("bytes of the answer", async () => (await working())?.[1] !== before);
    left.abort();
    const leaver = await lineOf("left");
    expect(leaver).toMatchObject({ status: 200, endCause: "client-gone", endpoint: "default/server-1" });
    expect(leaver).not.toHaveProperty("reason");

    await new Promise<void>((resolve) => {
      const socket = connect(port, "127.0.0.1", () =>
        socket.write("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\nx-request-id: odd\r\n\r\n"),
      );
      socket.on("close", () => resolve()).resume();
    });
    expect(await lineOf("odd")).toMatchObject({ method: "GET", path: "/", status: 400, reason: "bad_request" });

    expect(linesIn()).toHaveLength(4);
    for (const text of [readFileSync(file, "utf8"), process.stdout, process.stderr]) expect(text).not.toMatch(/nobody/);
  });

  it("counts the retry of a request, with the endpoint that served it", async () => {
    const dead = await freePort();
    // Nothing is scraped, and no server is asked for its models, so only the requests find the dead server.
    const endpoints = endpointsFile([dead, sims[0]!.port], ", models: [sim]");
    const { url } = await start("all", endpoints, ["--config-file", inTurn()]);
    for (const id of ["one", "two"]) await ask(`${url}${CHAT}`, { headers: headers(id), body: chat("hello") });
    const lines = [await lineOf("one"), await lineOf("two")];
    expect(lines.map((line) => line["retries"]).sort()).toEqual([0, 1]);
    for (const line of lines) expect(line).toMatchObject({ status: 200, endpoint: "default/server-2" });
  });

  it("leaves out what went well with `errors`, and goes on in a new file after a rename", async () => {
    const { url, process } = await start("errors", [sims[0]!.port]);
    await ask(`${url}${CHAT}`, { headers: headers("good"), body: chat("hello") });
    await ask(`${url}${CHAT}`, { method: "POST", headers: headers("bad"), body: "[]" });
    await lineOf("bad");
    expect(linesIn()).toHaveLength(1);
    renameSync(file, `${file}.1`);
    process.child.kill("SIGHUP");
    // The signal and the request race; without the signal, the gateway finds the rename within a second.
    let asked = 0;
    await poll("a line in the new file", async () => {
      await ask(`${url}${CHAT}`, { method: "POST", headers: headers(`again-${asked++}`), body: "[]" });
      return existsSync(file) && readFileSync(file, "utf8").includes("again-");
    });
    expect([...linesIn(`${file}.1`), ...linesIn()].map((line) => line["requestId"])).toContain("bad");
    expect(process.exit).toBeUndefined();
  });

  it("writes to stdout without a file, and outlives whoever read it", async () => {
    const { url, adminUrl, process } = await startOnStdout("all");
    await ask(`${url}${CHAT}`, { headers: headers("seen"), body: chat("hello") });
    await poll("the line", () => process.stdout.includes('"requestId":"seen"'));
    process.child.stdout!.destroy();
    await ask(`${url}${CHAT}`, { headers: headers("unseen"), body: chat("hello") });
    const dropped = async () =>
      Number(/^sluice_request_log_dropped_total (\d+)$/m.exec((await ask(`${adminUrl}/metrics`)).text)?.[1]);
    await poll("the dropped line", async () => (await dropped()) > 0);
    await poll("the warning", () => process.stderr.includes("the gateway dropped lines of the log of requests"));
    expect((await ask(`${url}${CHAT}`, { headers: headers("more"), body: chat("hello") })).status).toBe(200);
    await process.stop("SIGTERM");
    expect(process.exit).toEqual({ code: 0, signal: null });
  });

  it("delays neither a request nor the end of the gateway while nobody reads its stdout", async () => {
    const { url, process } = await startOnStdout("errors");
    process.child.stdout!.pause();
    // Together more bytes than the pipe holds: texts of clients fill their share of each line.
    const target = `${url}/v1/${"p".repeat(300)}`;
    for (let i = 0; i < 20; i++) {
      const some = Array.from({ length: 40 }, () =>
        ask(target, { method: "POST", headers: headers("i".repeat(300)), body: '{"model":1}' }),
      );
      for (const { status } of await Promise.all(some)) expect(status).toBe(403);
    }
    process.child.kill("SIGTERM");
    await poll("the end", () => process.exit);
    expect(process.exit).toEqual({ code: 0, signal: null });
  });
});

describe("the log flags of a gateway", () => {
  it("make ready lines and log lines JSON or text, and leave out what is below the level", async () => {
    const endpoints = endpointsFile([]);
    const base = ["gateway", "--endpoints", endpoints, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    const json = sluice(...(base as [string]), "--log-format", "json");
    await json.until("the ready lines", () => json.stdout.split("\n").length > 2);
    const ready = json.stdout
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Line);
    expect(ready).toMatchObject([
      {
        level: "info",
        name: "sluice",
        part: "gateway",
        msg: expect.stringMatching(/^listening name=gateway address=127/),
      },
      { part: "admin", address: expect.stringMatching(/^127\.0\.0\.1:\d+$/) },
    ]);
    expect(portOf(String(ready[0]!["address"]))).toBeGreaterThan(0);
    await json.until("the warning", () => json.stderr.includes("the file lists no endpoints"));
    await json.stop();

    const text = sluice(...(base as [string]), "--log-format", "console", "--log-level", "error");
    await text.listening("admin");
    expect(text.stdout).toMatch(
      /^listening name=gateway address=\S+ pid=\d+\nlistening name=admin address=\S+ pid=\d+\n$/,
    );
    expect(text.stderr).toBe("");
    await text.stop();
  });
});
