import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { clientAuthority } from "../../../test/support/certificates.ts";
import { deadPort } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { objectivesFromFlags } from "../../pool/resources/objectives.ts";
import { startGateway } from "../../wires/gateway/gateway.ts";
import { loadConfig } from "../config/load.ts";
import { InferenceCore } from "./inference-core.ts";
import { metricsSettings, NO_METRICS_FLAGS, startMetrics } from "./metrics-settings.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

// The data layer of a configuration against model servers that are real as far as HTTP goes.

const HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n";

const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function listen(server: Server, port = 0): Promise<number> {
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  cleanUps.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

interface ModelServer {
  readonly port: number;
  /** Paths that were asked for, in their order. */
  readonly asked: string[];
}

/** Serves pages by path, 404 elsewhere. */
async function modelServer(pages: Readonly<Record<string, string>>): Promise<ModelServer> {
  const asked: string[] = [];
  const answer: RequestListener = (request, response) => {
    asked.push(request.url!);
    const page = pages[request.url!];
    response.writeHead(page === undefined ? 404 : 200).end(page);
  };
  return { port: await listen(createServer(answer)), asked };
}

/** What `sluice epp` does with a configuration, in front of endpoints with these ports and labels. */
function start(text: string, ...endpoints: readonly (readonly [port: number, labels?: Record<string, string>])[]) {
  const config = loadConfig(parseDocument(text, { file: "c.yaml" }), PLUGIN_REGISTRY);
  const parts = { clock: realClock, random: new SeededRandom(1), log: silentLogger };
  const { none, ...scraping } = metricsSettings(config, NO_METRICS_FLAGS, parts);
  const models = { objectives: objectivesFromFlags([]) };
  const core = new InferenceCore({ ...parts, config, models, ...scraping, staleness: 2000, ignoreSubset: false });
  cleanUps.push(() => core.close(), startMetrics(core, { ...scraping, none }));
  return {
    core,
    endpoints: endpoints.map(([port, labels = {}], i) => {
      const spec = { namespace: "n", name: `e${i}`, address: "127.0.0.1", port, rank: 0, labels };
      return core.endpoints.upsert(spec)!;
    }),
  };
}

function counters(core: InferenceCore, name: string): readonly string[] {
  return render(core.registry)
    .split("\n")
    .filter((line) => line.includes(`${name}{`) && !line.endsWith(" 0"));
}

describe("the data layer of a configuration", () => {
  it("reads mixed engines as the sample of 4.6 says: by label, by specifications of one's own, by the default engine (S-12)", async () => {
    const text = readFileSync(
      new URL("../../../test/corpus/config/head-lora-mixed-engines.yaml", import.meta.url),
      "utf8",
    );
    const sglang = "sglang:num_queue_reqs 3\nsglang:num_running_reqs 4\nsglang:token_usage 0.25\n";
    const own = 'srv_requests{state="queued"} 5\nsrv_requests{state="running"} 6\nsrv_kv_ratio 0.5\n';
    const vllm = "vllm:num_requests_waiting 7\nvllm:num_requests_running 8\nvllm:gpu_cache_usage_perc 0.75\n";
    // Each shows what the others call their load, too: values that are nobody's.
    const decoys = (page: string): string =>
      [sglang, own, vllm]
        .filter((other) => other !== page)
        .join("")
        .replace(/ [\d.]+$/gm, " 0.01");
    const pages = [sglang, own, vllm, sglang];
    const servers = await Promise.all(pages.map((page) => modelServer({ "/metrics": decoys(page) + page })));
    const label = (engine: string) => ({ "llm-d.ai/engine-type": engine });
    const { endpoints } = start(
      text,
      [servers[0]!.port, label("sglang")],
      [servers[1]!.port, label("ours")],
      [servers[2]!.port, { "inference.networking.k8s.io/engine-type": "vllm" }],
      [servers[3]!.port],
    );
    await poll("all read", () => endpoints.every(({ metrics }) => !Number.isNaN(metrics.waiting)));
    const values = endpoints.map(({ metrics }) => [metrics.waiting, metrics.running, metrics.kvUsage]);
    expect(values).toEqual([
      [3, 4, 0.25],
      [5, 6, 0.5],
      [7, 8, 0.75],
      [3, 4, 0.25],
    ]);
    expect(endpoints.map(({ state }) => state)).toEqual(["up", "up", "up", "up"]);
    // Every 100 ms, or every second or third time where the machine is slow.
    for (const { scrapeInterval } of endpoints) expect(Math.round(scrapeInterval) % 100).toBe(0);
  });

  it("lets an engine of a built-in name replace the whole of it, former names included (S-13)", async () => {
    const page = "vllm:num_requests_waiting 7\nvllm:num_requests_running 8\nvllm:gpu_cache_usage_perc 0.75\n";
    const { port } = await modelServer({ "/metrics": page });
    const engine =
      "{name: vllm, queuedRequestsSpec: 'vllm:num_requests_waiting', kvUsageSpec: 'vllm:kv_cache_usage_perc'}";
    const extractor = `- {type: core-metrics-extractor, parameters: {engineConfigs: [${engine}]}}\n`;
    const built = start(HEAD, [port]);
    const replaced = start(`${HEAD}${extractor}`, [port]);
    await poll("both read", () =>
      [built, replaced].every(({ endpoints: [endpoint] }) => endpoint!.metrics.waiting === 7),
    );
    expect(built.endpoints[0]!.metrics).toMatchObject({ running: 8, kvUsage: 0.75 });
    expect(replaced.endpoints[0]!.metrics).toMatchObject({ running: Number.NaN, kvUsage: Number.NaN });
    await poll("counted (S-9)", () => counters(replaced.core, "datalayer_extract_errors_total").length === 2);
    expect(replaced.endpoints[0]!.state).toBe("up");
  });

  it("polls a source with an interval of 200 ms a quarter as often as one of 50 ms (S-6)", async () => {
    const { port, asked } = await modelServer({
      "/fast": "vllm:num_requests_waiting 1\n",
      "/slow": "vllm:num_requests_running 2\n",
    });
    const source = (name: string, interval: string): string =>
      `- {name: ${name}, type: metrics-data-source, parameters: {path: /${name}, interval: ${interval}}}\n`;
    const listed = ["slow", "fast"].map(
      (name) => `{pluginRef: ${name}, extractors: [{pluginRef: core-metrics-extractor}]}`,
    );
    const plugins = `${source("fast", "50ms")}${source("slow", "200ms")}- {type: core-metrics-extractor}\n`;
    const { endpoints } = start(`${HEAD}${plugins}dataLayer: {sources: [${listed.join(", ")}]}\n`, [port]);
    const count = (path: string): number => asked.filter((each) => each === path).length;
    await poll("polls", () => count("/fast") >= 17);
    // One less while a scrape is under way.
    expect(Math.ceil(count("/fast") / 4) - count("/slow")).toBeOneOf([0, 1]);
    expect(endpoints[0]!.metrics).toMatchObject({ waiting: 1, running: 2 });
  });

  it("goes to the path, the port and the scheme of the source, and trusts its authority (S-8)", async () => {
    const { ca, server: pair } = await clientAuthority();
    const page: RequestListener = (request, response) =>
      void response.writeHead(request.url === "/stats" ? 200 : 500).end("vllm:num_requests_waiting 9\n");
    const port = await listen(createTlsServer(pair, page));
    const caFile = join(mkdtempSync(join(tmpdir(), "sluice-data-layer-")), "ca.crt");
    writeFileSync(caFile, ca);
    const checked = `scheme: https, port: ${port}, insecureSkipVerify: false`;
    const source = (parameters: string): string =>
      `${HEAD}- {type: metrics-data-source, parameters: {${parameters}}}\n`;
    const dead = await deadPort();
    const trusting = start(source(`${checked}, path: /stats, caCertPath: ${caFile}`), [dead]);
    const doubting = start(source(`${checked}, path: /stats`), [dead]);
    const lost = start(source(`${checked}, caCertPath: ${caFile}`), [dead]);
    await poll("read", () => trusting.endpoints[0]!.metrics.waiting === 9);
    await poll("refused", () => doubting.endpoints[0]!.state === "blind");
    expect(doubting.endpoints[0]!.cause).toContain("scrape: TLS: ");
    await poll("not found", () => lost.endpoints[0]!.cause === "scrape: HTTP 500 from /metrics");
    expect(counters(lost.core, "datalayer_poll_errors_total")).toEqual([
      expect.stringMatching(/^llm_d_epp_datalayer_poll_errors_total\{source_type="metrics-data-source"\} [1-9]/),
      expect.stringMatching(
        /^llm_d_inference_scheduler_datalayer_poll_errors_total\{source_type="metrics-data-source"\} /,
      ),
    ]);
    expect(lost.core.endpoints.candidates().endpoints).toHaveLength(1);
  });

  it("scrapes nothing where there is no source: endpoints are up, unknown and saturated, and come back from the dead (S-65)", async () => {
    const silent = await modelServer({ "/metrics": "vllm:num_requests_waiting 1\n" });
    const watched = await modelServer({ "/metrics": "vllm:num_requests_waiting 1\n" });
    const port = await deadPort();
    const { core, endpoints } = start(`${HEAD}dataLayer: {injectDefaults: false}\n`, [silent.port], [port]);
    start(`${HEAD}- {type: metrics-data-source, parameters: {interval: 50ms}}\n`, [watched.port]);
    await poll("somebody else is scraped", () => watched.asked.length > 10);
    expect(silent.asked).toEqual([]);
    expect(endpoints.map(({ state, metrics }) => [state, metrics.waiting])).toEqual([
      ["up", Number.NaN],
      ["up", Number.NaN],
    ]);
    expect(core.saturation()).toMatchObject({ detector: "utilization-detector", value: 1 });
    expect(core.endpoints.candidates().endpoints).toHaveLength(2);
    core.endpoints.attemptFailed(endpoints[1]!, "connect", "ECONNREFUSED");
    expect(core.endpoints.candidates().endpoints).toEqual([endpoints[0]]);
    await listen(createServer(), port);
    await poll("back", () => core.endpoints.candidates().endpoints.length === 2);
    expect(silent.asked).toEqual([]);
  });
});

describe("sluice gateway", () => {
  it("honours the data layer of its configuration", async () => {
    const { port, asked } = await modelServer({ "/stats": "load 6\n" });
    const file = join(mkdtempSync(join(tmpdir(), "sluice-data-layer-")), "endpoints.yaml");
    writeFileSync(file, `endpoints:\n- {name: a, address: 127.0.0.1, port: ${port}}\n`);
    const extractor = "{defaultEngine: own, engineConfigs: [{name: own, queuedRequestsSpec: load}]}";
    const any = { host: "127.0.0.1", port: 0 };
    const gateway = await startGateway({
      ...{
        endpoints: { kind: "file", path: file },
        listeners: [any],
        admin: any,
        maxRetries: 0,
        retryStatuses: [],
        objectives: [],
      },
      ...{ debugOpen: false, log: silentLogger },
      configText: `${HEAD}- {type: metrics-data-source, parameters: {path: /stats, interval: 60ms}}
- {type: core-metrics-extractor, parameters: ${extractor}}
`,
    });
    cleanUps.push(() => gateway.close());
    await poll("read", () => gateway.endpoints()[0]!.metrics.waiting === 6);
    // The models are asked for before the port opens.
    expect(new Set(asked)).toEqual(new Set(["/stats", "/v1/models"]));
    // Or every second or third time where the machine is slow.
    expect(Math.round(gateway.endpoints()[0]!.scrapeInterval) % 60).toBe(0);
  });
});
