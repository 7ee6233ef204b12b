import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { clientAuthority } from "../../../test/support/certificates.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { loadConfig } from "../config/load.ts";
import { type MetricsFlags, metricsSettings, NO_METRICS_FLAGS, sameDataLayer } from "./metrics-settings.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

const HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n";

/** A configuration with one source and its extractor. */
function pages(source: string, extractor = "{}"): string {
  return `${HEAD}- {type: metrics-data-source, parameters: ${source}}\n- {type: core-metrics-extractor, parameters: ${extractor}}\n`;
}

function configOf(text: string) {
  return loadConfig(parseDocument(text, { file: "c.yaml" }), PLUGIN_REGISTRY);
}

function settingsOf(text: string, flags: Partial<MetricsFlags> = {}) {
  const warnings: string[] = [];
  const log: Logger = { ...silentLogger, warn: (_, message) => void warnings.push(message) };
  const parts = { clock: new VirtualClock(), random: new SeededRandom(1), log };
  return { ...metricsSettings(configOf(text), { ...NO_METRICS_FLAGS, ...flags }, parts), warnings };
}

function failureOf(text: string, flags: Partial<MetricsFlags> = {}): string {
  try {
    settingsOf(text, flags);
  } catch (error) {
    return `${(error as { code: string }).code}: ${(error as Error).message}`;
  }
  throw new Error("accepted");
}

const modelServers = (
  page: MetricsFlags["modelServers"]["page"],
  metrics: MetricsFlags["modelServers"]["metrics"] = {},
) => ({
  modelServers: { page, metrics },
});

function waitingOn(text: string, { dialects }: ReturnType<typeof settingsOf>, labels = {}): number {
  const page = Buffer.from(text);
  return dialects.of(labels).createReader().read(page, page.length, UNKNOWN_METRICS, 0).metrics.waiting;
}

describe("metricsSettings", () => {
  it("says for a file without a data layer what it always was", () => {
    expect(settingsOf(HEAD)).toMatchObject({
      none: false,
      metricsPage: { scheme: "http", path: "/metrics", port: 0, insecureSkipVerify: true, every: 1, also: [] },
      cadence: { interval: 50, fixed: false },
      warnings: [],
    });
  });

  it("takes page and engines from the file (S-12)", () => {
    const extractor = "{engineLabelKey: kind, defaultEngine: own, engineConfigs: [{name: own, queuedRequestsSpec: q}]}";
    const settings = settingsOf(pages("{path: /stats, port: 8002}", extractor));
    expect(settings.metricsPage).toMatchObject({ path: "/stats", port: 8002 });
    const page = "q 1\nsglang:num_queue_reqs 2\nvllm:num_requests_waiting 3\n";
    expect(waitingOn(page, settings)).toBe(1);
    expect(waitingOn(page, settings, { kind: "sglang", "llm-d.ai/engine-type": "vllm" })).toBe(2);
    expect(waitingOn(page, settings, { "inference.networking.k8s.io/engine-type": "vllm" })).toBe(3);
  });

  it("makes the interval of a source a fixed cadence, as the flag does (S-5, S-6)", () => {
    const cadence = (text: string, flags: Partial<MetricsFlags> = {}) => settingsOf(text, flags).cadence;
    expect(cadence(pages("{interval: 200ms}"))).toEqual({ interval: 200, fixed: true });
    expect(cadence(pages("{interval: 10ms}"))).toEqual({ interval: 50, fixed: true });
    expect(cadence(pages("{interval: 0s}"))).toEqual({ interval: 50, fixed: false });
    const given = { refreshMetricsInterval: 100, fixedCadence: true };
    expect(cadence(pages("{}"), given)).toEqual({ interval: 100, fixed: true });
    expect(cadence(pages("{interval: 200ms}"), given)).toEqual({ interval: 200, fixed: true });
  });

  it("fetches several sources each at its own pace, in steps of the fastest (S-6)", () => {
    const text = `${HEAD}- {type: core-metrics-extractor}
- {name: slow, type: metrics-data-source, parameters: {path: /slow, interval: 190ms}}
- {name: fast, type: metrics-data-source, parameters: {path: /fast, interval: 50ms}}
- {name: usual, type: metrics-data-source, parameters: {path: /usual}}
- {name: unread, type: metrics-data-source, parameters: {path: /unread}}
dataLayer:
  sources:
  - {pluginRef: slow, extractors: [{pluginRef: core-metrics-extractor}]}
  - {pluginRef: fast, extractors: [{pluginRef: core-metrics-extractor}]}
  - {pluginRef: usual, extractors: [{pluginRef: core-metrics-extractor}]}
  - {pluginRef: unread}
`;
    const { metricsPage, cadence } = settingsOf(text, { refreshMetricsInterval: 100, fixedCadence: true });
    expect(cadence).toEqual({ interval: 50, fixed: true });
    expect([metricsPage, ...metricsPage.also!].map(({ path, every }) => [path, every])).toEqual([
      ["/slow", 4],
      ["/fast", 1],
      ["/usual", 2],
    ]);
    expect(() => configOf(text.replace("pluginRef: unread", "pluginRef: fast"))).toThrow(
      "dataLayer.sources lists fast twice; keep one entry, with the extractors of both",
    );
  });

  it("has nothing to scrape where the file injects nothing and lists nothing, and says which flags that leaves idle (S-65)", () => {
    const text = `${HEAD}dataLayer: {injectDefaults: false}\n`;
    expect(settingsOf(text)).toMatchObject({ none: true, warnings: [] });
    expect(settingsOf(text, modelServers({ port: 8002 }, { "lora-info-metric": "l" })).warnings).toEqual([
      "--lora-info-metric has no effect: the configuration has no source of metrics",
      "--model-server-metrics-port has no effect: the configuration has no source of metrics",
    ]);
    const unread = `${pages("{}")}dataLayer: {sources: [{pluginRef: metrics-data-source}]}\n`;
    expect(settingsOf(unread)).toMatchObject({ none: true });
  });

  it("lays the flags of older releases over the source", () => {
    const text = pages("{path: /stats, port: 8002, insecureSkipVerify: false, scheme: https}");
    expect(settingsOf(text, modelServers({ path: "/m", port: 0 })).metricsPage).toMatchObject({
      ...{ scheme: "https", path: "/m", port: 0, insecureSkipVerify: false },
    });
    expect(settingsOf(text, modelServers({ scheme: "http", insecureSkipVerify: true })).metricsPage).toMatchObject({
      ...{ scheme: "http", path: "/stats", port: 8002, insecureSkipVerify: true },
    });
    expect(settingsOf(HEAD, modelServers({ insecureSkipVerify: false })).warnings).toEqual([
      "--model-server-metrics-https-insecure-skip-verify has no effect: metrics pages are read over http",
    ]);
    expect(settingsOf(text, modelServers({ insecureSkipVerify: false })).warnings).toEqual([]);
  });

  const QUEUED = "total-queued-requests-metric";

  it("lays the flags that name metrics over the default engine of the extractor, and refuses them beside engineConfigs (S-17)", () => {
    const named = modelServers({}, { [QUEUED]: "mine" });
    expect(waitingOn("mine 7\n", settingsOf(pages("{}").replace(/- .type: core.*\n/, ""), named))).toBe(7);
    expect(waitingOn("mine 7\n", settingsOf(pages("{}"), named))).toBe(7);
    const sglang = settingsOf(pages("{}", "{defaultEngine: sglang, engineLabelKey: kind}"), named);
    const page = "mine 1\nsglang:num_queue_reqs 2\nvllm:num_requests_waiting 3\n";
    expect([{}, { kind: "sglang" }, { kind: "vllm" }].map((labels) => waitingOn(page, sglang, labels))).toEqual([
      1, 1, 3,
    ]);
    expect(failureOf(pages("{}", "{engineConfigs: [{name: own, queuedRequestsSpec: q}]}"), named)).toBe(
      `FLAG_CONFLICT: --${QUEUED} and the engineConfigs of the plugin core-metrics-extractor in c.yaml both name metrics; remove the flag, and write the metric into engineConfigs`,
    );
  });

  it("reads the files of a source at start, for https only, and names the one that cannot be read", async () => {
    const directory = mkdtempSync(join(tmpdir(), "sluice-metrics-tls-"));
    const file = (name: string, text: string): string => {
      writeFileSync(join(directory, name), text);
      return join(directory, name);
    };
    const { ca, client } = await clientAuthority();
    const files = `caCertPath: ${file("ca.crt", ca)}, clientCertPath: ${file("c.crt", client.cert)}, clientKeyPath: ${file("c.key", client.key)}`;
    expect(settingsOf(pages(`{scheme: https, ${files}}`)).metricsPage).toMatchObject({ ca, client });
    expect(settingsOf(pages(`{${files}}`)).metricsPage).not.toHaveProperty("ca");
    const missing = join(directory, "missing.crt");
    expect(failureOf(pages(`{scheme: https, caCertPath: ${missing}}`))).toContain(
      `TLS_FILE_UNREADABLE: plugin metrics-data-source: cannot read ${missing}: ENOENT`,
    );
    expect(failureOf(pages(`{scheme: https, caCertPath: ${file("no.crt", "hello")}}`))).toContain(
      "TLS_FILE_INVALID: plugin",
    );
    expect(settingsOf(pages(`{caCertPath: ${missing}}`)).none).toBe(false);
  });
});

describe("sameDataLayer", () => {
  const same = (a: string, b: string): boolean => sameDataLayer(configOf(a), configOf(b));

  it("compares what is scraped and how it is read, not names nor what is spelt out", () => {
    expect(same(HEAD, `${HEAD}- type: kv-cache-utilization-scorer\n`)).toBe(true);
    expect(same(HEAD, pages("{path: /metrics, scheme: http}", "{defaultEngine: vllm}"))).toBe(true);
    expect(same(HEAD, pages("{path: /stats}"))).toBe(false);
    expect(same(HEAD, pages("{interval: 50ms}"))).toBe(false);
    expect(same(HEAD, pages("{}", "{defaultEngine: sglang}"))).toBe(false);
    expect(same(HEAD, `${HEAD}dataLayer: {injectDefaults: false}\n`)).toBe(false);
  });

  it("compares where endpoints come from", () => {
    const from = (path: string): string =>
      `${HEAD}- {type: file-discovery, parameters: {path: ${path}}}\ndataLayer: {discovery: {pluginRef: file-discovery}}\n`;
    expect(same(from("/a.yaml"), from("/a.yaml"))).toBe(true);
    expect(same(from("/a.yaml"), from("/b.yaml"))).toBe(false);
    expect(same(from("/a.yaml"), HEAD)).toBe(false);
  });
});
