import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ask, chat, getJson, JSON_HEADERS } from "../support/client.ts";
import { ExtProcClient, exchange } from "../support/epp-process.ts";
import { type OtlpCollector, startOtlpCollector } from "../support/otlp-collector.ts";
import { poll } from "../support/poll.ts";
import { PROGRAM, TestProcess } from "../support/process.ts";
import { endpointsFile, portOf, type SeenRequest, type Sim, startSims } from "../support/stack.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const CLIENT = "b7ad6b7169203331";

/** A request waits for an endpoint, and then is refused. */
const FLOW_CONTROL = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
flowControl: { noEndpointRequestTTL: 50ms }
`;

let sims: Sim[];
let endpoints: string;
let collector: OtlpCollector;
const running: TestProcess[] = [];

beforeAll(async () => {
  sims = await startSims(1);
  endpoints = endpointsFile(sims.map((sim) => sim.port));
});
afterAll(() => Promise.all((sims ?? []).map((sim) => sim.process.stop())));
beforeEach(async () => {
  collector = await startOtlpCollector();
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((process) => process.stop()));
  await collector[Symbol.asyncDispose]();
});

/** Runs `sluice` with these variables. */
function start(env: Readonly<Record<string, string>>, ...args: readonly string[]): TestProcess {
  const sluice = new TestProcess(process.execPath, [PROGRAM, ...args], {
    env: { ...process.env, ...env },
  });
  running.push(sluice);
  return sluice;
}

const ports = ["--bind-address", "127.0.0.1", "--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port", "0"];
const epp = (env: Readonly<Record<string, string>>, ...args: readonly string[]) =>
  start(env, "epp", "--endpoints", endpoints, "--secure-serving=false", "--drain-timeout=0s", ...ports, ...args);
const collected = () => ({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint });

async function oneExchange(process: TestProcess): Promise<void> {
  const client = await ExtProcClient.connect(portOf(await process.listening("ext-proc")));
  await exchange(client);
  client.close();
}

describe("sluice epp", () => {
  it("sends what it sampled before it ends, under the reference's names (S-99, scheduling 9.1)", async () => {
    const process = epp({ ...collected(), OTEL_TRACES_SAMPLER_ARG: "1" });
    await oneExchange(process);
    await process.stop("SIGTERM");
    expect(process.exit?.code).toBe(0);
    const names = new Set(collector.spans.map(({ name }) => name));
    for (const name of [
      "gateway.request",
      "gateway.request_orchestration",
      "run_scheduler_profile",
      "llm_d.epp.scoring",
      "pick_endpoints",
    ])
      expect(names).toContain(name);
    const [span] = collector.spans;
    expect([span!.scope, span!.resource["service.name"]]).toEqual(["llm-d-router", "llm-d-epp"]);
    const request = collector.spans.find(({ name }) => name === "gateway.request")!;
    expect(request.ended).toBeGreaterThanOrEqual(request.started);
    // Of this century: the spans' times are the wall clock's.
    expect(request.started).toBeGreaterThan(Date.UTC(2020));
  });

  it("prints spans with OTEL_TRACES_EXPORTER=console, and sends none with --tracing=false", async () => {
    const sampler = { OTEL_TRACES_SAMPLER_ARG: "1", OTEL_TRACES_EXPORTER: "console" };
    const printing = epp(sampler);
    const silent = epp({ ...sampler, ...collected() }, "--tracing=false");
    for (const process of [printing, silent]) {
      await oneExchange(process);
      await process.stop("SIGTERM");
    }
    expect(printing.stdout).toContain("name: 'gateway.request_orchestration'");
    expect(silent.stdout).not.toContain("gateway.request");
    expect(collector.calls).toBe(0);
  });

  it("refuses an endpoint that is no address, and names it", async () => {
    const process = epp({ OTEL_EXPORTER_OTLP_ENDPOINT: "ftp://collector" });
    await process.ended();
    expect(process.exit?.code).not.toBe(0);
    expect(process.stderr).toContain('"ftp://collector"; give http://host:port');
  });
});

describe("sluice gateway", () => {
  it("shows the wait of a request in flow control, and how it ended", async () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-tracing-"));
    const [config, none] = [join(folder, "flow-control.yaml"), join(folder, "endpoints.yaml")];
    writeFileSync(config, FLOW_CONTROL);
    writeFileSync(none, "endpoints: []\n");
    const process = start(
      { ...collected(), OTEL_TRACES_SAMPLER_ARG: "1" },
      ...["gateway", "--endpoints", none, "--config-file", config, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"],
    );
    const url = `http://${await process.listening("gateway")}`;
    const headers = { ...JSON_HEADERS, "x-llm-d-inference-fairness-id": "team" };
    const answer = await ask(`${url}/v1/chat/completions`, { method: "POST", headers, body: chat("hello") });
    expect(answer.status).toBe(503);
    await process.stop("SIGTERM");
    const of = (name: string) => collector.spans.find((span) => span.name === name)!;
    const wait = of("flow_control_wait");
    expect(wait).toMatchObject({ parentId: of("gateway.request").spanId, error: "EvictedNoEndpoints" });
    expect(wait.attributes).toMatchObject({ "sluice.flow_control.fairness_id": "team", "sluice.flow_control.band": 0 });
    expect(wait.ended).toBeGreaterThan(wait.started);
    rmSync(folder, { recursive: true });
  });

  it("makes the model server a child of the client's trace (S-99)", async () => {
    const process = start(
      collected(),
      ...["gateway", "--endpoints", endpoints, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"],
    );
    const url = `http://${await process.listening("gateway")}`;
    const headers = {
      ...JSON_HEADERS,
      ...{ "x-test-id": "traced", traceparent: `00-${TRACE}-${CLIENT}-01`, tracestate: "vendor=1" },
    };
    const answer = await ask(`${url}/v1/chat/completions`, { method: "POST", headers, body: chat("hello") });
    expect(answer.status).toBe(200);
    await process.stop("SIGTERM");
    const { requests } = await getJson<{ requests: SeenRequest[] }>(`${sims[0]!.url}/admin/requests`);
    const seen = requests.find((request) => request.headers["x-test-id"] === "traced")!;
    const request = await poll("the span", () => collector.spans.find(({ name }) => name === "gateway.request"));
    expect(request).toMatchObject({ traceId: TRACE, parentId: CLIENT });
    expect(seen.headers["traceparent"]).toBe(`00-${TRACE}-${request.spanId}-01`);
    expect(seen.headers["tracestate"]).toBe("vendor=1");
  });
});
