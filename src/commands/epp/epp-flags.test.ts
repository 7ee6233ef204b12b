import { describe, expect, it } from "vitest";
import type { SluiceError } from "../../base/inference/errors.ts";
import { UNLIMITED } from "../../base/process/memory-plan.ts";
import { DEFAULT_WIRE_OPTIONS } from "../../wires/extproc/wire-options.ts";
import type { FlagRow } from "../common/go-flags.ts";
import { eppCommand } from "./command.ts";
import { EPP_FLAGS } from "./epp-flag-table.ts";
import { eppHelp, eppReference, parseEppFlags } from "./epp-flags.ts";
import type { EppSettings } from "./epp-settings.ts";

const parse = (...args: string[]) => parseEppFlags(["--endpoints", "e.yaml", ...args], {}) as EppSettings;

function failureOf(...args: string[]): string {
  try {
    parseEppFlags(args, {});
  } catch (error) {
    return `${(error as SluiceError).code}: ${(error as SluiceError).message}`;
  }
  throw new Error("accepted");
}

/** Every name of epp-protocol 13.2 and 13.3. */
const PUBLISHED =
  `grpcPort grpcHealthPort metricsPort destinationEndpointHintKey DestinationEndpointHintMetadataNamespace poolName
poolNamespace configFile configText healthChecking enablePprof modelServerMetricsPath modelServerMetricsPort refreshMetricsInterval refreshPrometheusMetricsInterval v secureServing certPath totalQueuedRequestsMetric
kvCacheUsagePercentageMetric loraInfoMetric zap-devel zap-encoder zap-log-level zap-stacktrace-level zap-time-encoding kubeconfig
grpc-port grpc-health-port metrics-port pool-name pool-namespace pool-group endpoint-selector endpoint-target-ports
disable-endpoint-subset-filter ha-enable-leader-election drain-timeout grpc-max-recv-msg-size grpc-max-send-msg-size
emit-endpoint-scores enable-grpc-stream-metrics secure-serving cert-path enable-cert-reload tls-min-version tls-cipher-suites
health-checking metrics-endpoint-auth metrics-client-ca-file metrics-cert-dir enable-pprof tracing config-file config-text
allow-experimental-plugins refresh-metrics-interval refresh-prometheus-metrics-interval metrics-staleness-threshold
model-server-metrics-scheme model-server-metrics-path model-server-metrics-port
model-server-metrics-https-insecure-skip-verify total-queued-requests-metric total-running-requests-metric
kv-cache-usage-percentage-metric lora-info-metric cache-info-metric`.split(/\s+/);

/** Defaults of epp-protocol 13.3; left out where ours differ on purpose: the pool's namespace, message size, zap-*. */
const REFERENCE_DEFAULTS = [
  ["grpc-port", "9002"],
  ["grpc-health-port", "9003"],
  ["metrics-port", "9090"],
  ["pool-name", ""],
  ["pool-group", "inference.networking.k8s.io"],
  ["endpoint-selector", ""],
  ["endpoint-target-ports", ""],
  ["disable-endpoint-subset-filter", "false"],
  ["ha-enable-leader-election", "false"],
  ["drain-timeout", "30s"],
  ["grpc-max-send-msg-size", ""],
  ["emit-endpoint-scores", "false"],
  ["enable-grpc-stream-metrics", "false"],
  ["secure-serving", "true"],
  ["cert-path", ""],
  ["enable-cert-reload", "false"],
  ["tls-min-version", ""],
  ["tls-cipher-suites", ""],
  ["health-checking", "false"],
  ["metrics-endpoint-auth", "true"],
  ["metrics-client-ca-file", ""],
  ["metrics-cert-dir", ""],
  ["enable-pprof", "true"],
  ["tracing", "true"],
  ["config-file", ""],
  ["config-text", ""],
  ["allow-experimental-plugins", "false"],
  ["refresh-metrics-interval", "50ms"],
  ["refresh-prometheus-metrics-interval", "5s"],
  ["metrics-staleness-threshold", "2s"],
  ["model-server-metrics-scheme", "http"],
  ["model-server-metrics-path", "/metrics"],
  ["model-server-metrics-port", "0"],
  ["model-server-metrics-https-insecure-skip-verify", "true"],
  ["total-queued-requests-metric", "vllm:num_requests_waiting"],
  ["total-running-requests-metric", "vllm:num_requests_running"],
  ["kv-cache-usage-percentage-metric", "vllm:kv_cache_usage_perc"],
  ["lora-info-metric", "vllm:lora_requests_info"],
  ["cache-info-metric", "vllm:cache_config_info"],
  ["destination-endpoint-hint-key", "x-gateway-destination-endpoint"],
  ["destination-endpoint-hint-metadata-namespace", "envoy.lb"],
  ["v", "2"],
  ["kubeconfig", ""],
] as const;

describe("parseEppFlags", () => {
  it("has the reference's defaults", () => {
    const { missingEndpoints: _, shown: _shown, ...options } = parse();
    expect(options).toEqual({
      allowExperimental: false,
      parity: "",
      bindAddress: "0.0.0.0",
      bodies: { limit: 256 * 2 ** 20, small: 64 * 1024, reserve: 64 * 2 ** 20, minRate: 1024, window: 10_000 },
      grpcPort: 9002,
      grpcHealthPort: 9003,
      metricsPort: 9090,
      scalerPort: undefined,
      poolName: "epp",
      kubernetes: undefined,
      endpointsFile: "e.yaml",
      objectives: [],
      configFile: undefined,
      configText: undefined,
      profile: undefined,
      env: {},
      modelServers: { page: {}, metrics: {} },
      resources: undefined,
      tls: {
        secureServing: true,
        certPath: undefined,
        certReload: false,
        minVersion: "TLSv1.2",
        ciphers: undefined,
        scalerCertDir: undefined,
        metricsCertDir: undefined,
        extProcClientCaFile: undefined,
        clientCaFile: undefined,
      },
      wire: DEFAULT_WIRE_OPTIONS,
      emitScores: false,
      maxEndpoints: undefined,
      learnsBytesPerToken: true,
      memory: UNLIMITED,
      maxRequestBytes: 32 * 1024 * 1024,
      streamMetrics: false,
      tracing: true,
      inferenceModelMetrics: true,
      pprof: true,
      healthChecking: true,
      refreshMetricsInterval: 50,
      fixedCadence: false,
      refreshPrometheusMetricsInterval: 5000,
      metricsStalenessThreshold: 2000,
      grpcMaxRecvMsgSize: 67_108_864,
      grpcMaxStreams: 2048,
      grpcMaxTotalStreams: 65_536,
      grpcMaxConnections: 4096,
      disableEndpointSubsetFilter: false,
      drainTimeout: 30_000,
      logging: { level: "info", encoder: "json", time: "iso8601" },
      debugOpen: false,
      prometheus: undefined,
      explain: { decisionHeader: false, fullRecordsEvery: 256 },
      warnings: [],
    });
  });

  it.each(REFERENCE_DEFAULTS)("--%s is %j when not given (E-120)", (name, value) => {
    expect(EPP_FLAGS.find((row) => row.name === name)?.default).toBe(value);
  });

  it("knows every published name in one table, no name twice", () => {
    const known = EPP_FLAGS.flatMap((row: FlagRow) => [row.name, ...(row.aliases ?? [])]);
    expect(PUBLISHED.filter((name) => !known.includes(name))).toEqual([]);
    expect(new Set(known).size).toBe(known.length);
  });

  it("takes the reference's own default of every flag that does nothing without complaint", () => {
    const inert = EPP_FLAGS.filter((row: FlagRow) => row.inert !== undefined && row.since !== "ours");
    expect(inert.length).toBeGreaterThan(0);
    const given = inert.flatMap(({ name, default: value }) => (value === "" ? [] : [`--${name}=${value}`]));
    expect(parse(...given).warnings).toEqual([]);
  });

  it("takes the arguments that the charts of each release write, endpoints added", () => {
    expect(
      parse(
        "-poolName",
        "p",
        "-poolNamespace",
        "n",
        "-v",
        "3",
        "-grpcPort",
        "9102",
        "-grpcHealthPort",
        "9103",
        "-metricsPort",
        "9190",
      ),
    ).toMatchObject({
      poolName: "p",
      logging: { level: "info" },
      grpcPort: 9102,
      grpcHealthPort: 9103,
      metricsPort: 9190,
    });
    const v15 = parse(
      "--pool-name",
      "p",
      "--pool-group",
      "inference.networking.k8s.io",
      "--zap-encoder",
      "json",
      "--tracing=false",
      "--metrics-endpoint-auth=false",
      "--secure-serving",
      "false",
      '--total-queued-requests-metric="vllm:num_requests_waiting"',
      "--lora-info-metric",
      "",
    );
    expect(v15).toMatchObject({
      poolName: "p",
      tracing: false,
      inferenceModelMetrics: true,
      tls: { secureServing: false },
      modelServers: {
        metrics: { "total-queued-requests-metric": "vllm:num_requests_waiting", "lora-info-metric": "" },
      },
    });
  });

  it("takes those of v1.0 and of the charts that came after v1.5, too (api-resources 6B.2)", () => {
    const common = ["--pool-name", "p", "--pool-namespace", "n", "--zap-encoder", "json", "--config-file", "/config/f"];
    expect(parse(...common, "--v", "1")).toMatchObject({
      poolName: "p",
      configFile: "/config/f",
      logging: { level: "warn", encoder: "json" },
      warnings: [],
    });
    const later = ["--v=4", "--tracing", "false", "--grpc-health-port", "9103", "--enable-pprof", "true"];
    const pool = ["--pool-group", "inference.networking.k8s.io", "--metrics-endpoint-auth=false"];
    expect(parse(...common, ...later, ...pool, "--secure-serving=false", "--drain-timeout=1m30s")).toMatchObject({
      grpcHealthPort: 9103,
      pprof: true,
      drainTimeout: 90_000,
      logging: { level: "debug" },
      tls: { secureServing: false },
      warnings: [],
    });
  });

  it("takes the metrics of other model servers in every spelling, and warns that the flags are deprecated (S-17, C-19, pitfall 19)", () => {
    const deprecated = (flag: string): string =>
      `--${flag} is deprecated: later releases of the reference have engineConfigs in the configuration instead; Sluice accepts both`;
    expect(
      parse("-totalQueuedRequestsMetric", "q", "--kvCacheUsagePercentageMetric=kv{a=b}", '--lora-info-metric=""'),
    ).toMatchObject({
      modelServers: {
        metrics: {
          "total-queued-requests-metric": "q",
          "kv-cache-usage-percentage-metric": "kv{a=b}",
          "lora-info-metric": "",
        },
      },
      warnings: [
        deprecated("total-queued-requests-metric"),
        deprecated("kv-cache-usage-percentage-metric"),
        deprecated("lora-info-metric"),
      ],
    });
    expect(
      parse("-loraInfoMetric=l", "--totalRunningRequestsMetric=r", '--cache-info-metric="c{x=\\"y\\"}"').modelServers
        .metrics,
    ).toEqual({
      "total-running-requests-metric": "r",
      "lora-info-metric": "l",
      "cache-info-metric": 'c{x=\\"y\\"}',
    });
  });

  it("takes where the metrics pages are, and warns that the configuration says so today", () => {
    const deprecated = (flag: string, parameter: string): string =>
      `--model-server-metrics-${flag} is deprecated: use the parameter ${parameter} of metrics-data-source in the configuration; this flag overrides it`;
    expect(
      parse(
        "--model-server-metrics-scheme=https",
        "--model-server-metrics-port=8002",
        "--model-server-metrics-path=/stats",
        "--model-server-metrics-https-insecure-skip-verify=false",
      ),
    ).toMatchObject({
      modelServers: { page: { scheme: "https", path: "/stats", port: 8002, insecureSkipVerify: false } },
      warnings: [
        deprecated("scheme", "scheme"),
        deprecated("port", "port"),
        deprecated("path", "path"),
        deprecated("https-insecure-skip-verify", "insecureSkipVerify"),
      ],
    });
    expect(parse("--model-server-metrics-port=0")).toMatchObject({ modelServers: { page: { port: 0 } } });
  });

  it("tells a given profile from the default one", () => {
    expect(parse("--profile=legacy-v0.3").profile).toBe("legacy-v0.3");
    expect(parse("--profile", "default").profile).toBe("default");
  });

  it("serves buffered bodies where v0.3's environment says so, and tells of malformed values", () => {
    const from = (env: Record<string, string>) => parseEppFlags(["--endpoints=e"], env) as EppSettings;
    expect(from({ USE_STREAMING: "false" }).wire.defaultBodyMode).toBe("buffered");
    const { wire, warnings } = from({ USE_STREAMING: "perhaps", NAMESPACE: "ns" });
    expect(wire.defaultBodyMode).toBe("full-duplex");
    expect(warnings).toEqual([expect.stringContaining("USE_STREAMING is ignored")]);
  });

  it("takes the switches of the release that has them (E-120)", () => {
    expect(
      parse(
        ...["--emit-endpoint-scores", "--enable-grpc-stream-metrics=true", "--enable-pprof=false"],
        ...["--grpc-max-recv-msg-size", "10MiB", "--grpc-max-send-msg-size=25MB", "--allow-experimental-plugins"],
        ...["--enable-cert-reload", "--cert-path=/c", "--zap-log-level=debug", "--zap-encoder=console"],
      ),
    ).toMatchObject({
      emitScores: true,
      streamMetrics: true,
      allowExperimental: true,
      pprof: false,
      grpcMaxRecvMsgSize: 10 * 2 ** 20,
      tls: { certPath: "/c", certReload: true },
      logging: { level: "debug", encoder: "console" },
      warnings: ["--grpc-max-send-msg-size has no effect: each sent message is far below any limit"],
    });
    expect(parse("--grpc-max-recv-msg-size=").grpcMaxRecvMsgSize).toBe(64 * 2 ** 20);
    expect(parse("--grpc-max-recv-msg-size=0").grpcMaxRecvMsgSize).toBe(0);
  });

  it("takes how much is kept and told of decisions", () => {
    expect(parse("--decision-header", "--full-records-every=0").explain).toEqual({
      ...{ decisionHeader: true, fullRecordsEvery: 0 },
    });
    expect(failureOf("--full-records-every=-1")).toMatch(/^FLAG_VALUE: .*full-records-every/);
  });

  it("tells a given refresh interval from the default, and raises it to 50ms", () => {
    expect(parse("--refresh-metrics-interval=50ms")).toMatchObject({ refreshMetricsInterval: 50, fixedCadence: true });
    expect(parse("--refresh-metrics-interval=10ms")).toMatchObject({
      refreshMetricsInterval: 50,
      warnings: ["--refresh-metrics-interval is raised to 50ms, the minimum"],
    });
  });

  it("collects objectives, and unpacks an IPv6 address", () => {
    expect(parse("--objective", "a=1", "--objective=b=-1,c=2", "--bind-address=[::1]")).toMatchObject({
      objectives: ["a=1", "b=-1", "c=2"],
      bindAddress: "::1",
    });
  });

  it("leaves it to the configuration to name the endpoints, and carries the error for when it doesn't", () => {
    const options = parseEppFlags(["--config-file=c.yaml"], {}) as EppSettings;
    expect(options).toMatchObject({ endpointsFile: undefined, configFile: "c.yaml", poolName: "epp" });
    expect(options.missingEndpoints.message).toContain("no flag and no configuration names the endpoints");
  });

  it("R-39, R-58: asks Kubernetes for the pool or the pods that are named", () => {
    const read = (args: string[], env: Record<string, string> = {}) => parseEppFlags(args, env) as EppSettings;
    expect(read(["--pool-name=p"], { NAMESPACE: "llm" })).toMatchObject({
      poolName: "p",
      resources: undefined,
      kubernetes: {
        namespace: "llm",
        members: { kind: "pool", name: "p", group: undefined },
        leaderElection: false,
        metricsAuth: true,
        writeModelStatus: false,
        matching: "auto",
      },
    });
    expect(read(["--pool-name", "p", "--pool-namespace", "ns"], { NAMESPACE: "llm" }).kubernetes?.namespace).toBe("ns");
    expect(
      read(
        [
          ...["--endpoint-selector", "app in (a,b)", "--endpoint-target-ports", "8000,8001,8000", "--kubeconfig=/k"],
          ...["--ha-enable-leader-election", "--metrics-endpoint-auth=false", "--write-model-status"],
        ],
        { POD_NAME: "my-epp-7d9f-x2x1z" },
      ),
    ).toMatchObject({
      poolName: "my-epp",
      kubernetes: {
        namespace: "default",
        members: { kind: "selector", selector: "app in (a,b)", ports: [8000, 8001] },
        kubeconfig: "/k",
        leaderElection: true,
        metricsAuth: false,
        writeModelStatus: true,
      },
    });
    expect(read(["--pool-name=p", "--endpoints=e"]).kubernetes).toBeUndefined();
  });

  it("warns of flags without effect", () => {
    expect(
      parse("--endpoint-selector=app=x", "--endpoint-target-ports=8000", "--cert-path=/c", "--secure-serving=false")
        .warnings,
    ).toEqual([
      "--cert-path has no effect with --secure-serving=false",
      "--endpoint-selector has no effect: the endpoints come from a file",
      "--endpoint-target-ports has no effect: the endpoints come from a file",
    ]);
  });

  it.each([
    [
      ["--endpoint-selector", "app=x", "--endpoint-target-ports", "8000,8001,8000"],
      "POD_NAME: --endpoint-selector takes the name of the Deployment from the environment variable POD_NAME, which is not set; set it from metadata.name of the pod",
    ],
    [
      [],
      "ENDPOINTS_MISSING: no flag and no configuration names the endpoints: give --pool-name or --endpoint-selector in Kubernetes, else --endpoints FILE, or a --config-file with a file-discovery in dataLayer.discovery",
    ],
    [
      ["--resources=r", "--pool-name=p"],
      "ENDPOINTS_MISSING: no flag and no configuration names the endpoints: give --pool-name or --endpoint-selector in Kubernetes, else --endpoints FILE, or a --config-file with a file-discovery in dataLayer.discovery",
    ],
    [
      ["--config-file=a", "--config-text=b"],
      "FLAG_CONFLICT: --config-file and --config-text: both flags cannot be set at the same time",
    ],
    [
      ["--endpoints=e", "--metrics-endpoint-auth"],
      "FLAG_UNSUPPORTED: --metrics-endpoint-auth=true needs an API server of Kubernetes, which endpoints from a file do not have; remove the flag",
    ],
    [
      ["--endpoints=e", "--metrics-cert-dir=/m", "--metrics-endpoint-auth=false"],
      "FLAG_CONFLICT: --metrics-cert-dir requires --metrics-client-ca-file or --metrics-endpoint-auth: TLS alone admits every client",
    ],
    [
      ["--endpoints=e", "--metrics-client-ca-file=/ca.pem"],
      "FLAG_CONFLICT: --metrics-client-ca-file requires --metrics-cert-dir: clients show certificates over TLS only",
    ],
    [
      ["--pool-name=p", "--endpoint-selector=a=b", "--endpoint-target-ports=80"],
      "FLAG_CONFLICT: either pool-name or endpoint-selector must be set: --pool-name and --endpoint-selector exclude each other",
    ],
    [["--endpoint-selector=a=b"], "FLAG_CONFLICT: --endpoint-selector requires --endpoint-target-ports, 1 to 8 ports"],
    [
      ["--endpoints=e", "--grpc-max-send-msg-size=-1"],
      'FLAG_VALUE: --grpc-max-send-msg-size="-1" is not valid: the smallest value is 0',
    ],
    [
      ["--endpoints=e", "--bind-address=localhost"],
      'FLAG_VALUE: --bind-address="localhost" is not an IP address; write for example 127.0.0.1, 0.0.0.0 or ::',
    ],
    [
      ["--endpoints=e", "--scaler-port=9003"],
      "FLAG_CONFLICT: --grpc-health-port and --scaler-port are both 9003; give each its own port",
    ],
    [
      ["--endpoints=e", "--scaler-port=65536"],
      'FLAG_VALUE: --scaler-port="65536" is not valid: the largest value is 65535',
    ],
    [
      ["--endpoints=e", "--scaler-cert-dir=/s"],
      "FLAG_CONFLICT: --scaler-cert-dir requires --scaler-port: without this port there is no scaler",
    ],
    [
      ["--endpoints=e", "--metrics-port=9002"],
      "FLAG_CONFLICT: --grpc-port and --metrics-port are both 9002; give each its own port",
    ],
    [
      ["--endpoint-target-ports=80,0"],
      'FLAG_VALUE: --endpoint-target-ports takes 1 to 8 ports from 1 to 65535, got "0"',
    ],
    [
      ["--endpoint-target-ports=1,2,3,4,5,6,7,8,9"],
      "FLAG_VALUE: --endpoint-target-ports takes 1 to 8 ports from 1 to 65535, got 9",
    ],
    [
      ["--model-server-metrics-scheme=ftp"],
      'FLAG_VALUE: --model-server-metrics-scheme="ftp" is not valid: use http or https',
    ],
    [
      ["--model-server-metrics-path=metrics"],
      'FLAG_VALUE: --model-server-metrics-path="metrics" is not a path; write for example /metrics',
    ],
    [["--endpiont=e"], "FLAG_UNKNOWN: unknown flag --endpiont; did you mean --endpoints?"],
  ])("refuses %j", (args, message) => {
    expect(failureOf(...args)).toBe(message);
  });

  it("lets two ports be any", () => {
    expect(parse("--grpc-port=0", "--grpc-health-port=0", "--metrics-port=0")).toMatchObject({
      grpcPort: 0,
      metricsPort: 0,
    });
  });
});

describe("texts", () => {
  it("show help when asked, whatever else is wrong", () => {
    expect(parseEppFlags(["--help", "--nonsense"], {})).toBe("help");
    // `sluice help epp`
    expect(eppCommand().helpInformation()).toContain("--grpc-port INT");
    expect(eppHelp()).toContain("  --endpoints FILE\n");
  });

  it("put every flag into the reference", () => {
    const page = eppReference();
    for (const { name } of EPP_FLAGS) expect(page).toContain(name === "v" ? "| `-v` |" : `\`--${name}\``);
  });
});

describe("the memory limit of the picker", () => {
  const MIB = 1024 * 1024;
  const within = (cgroup: number, ...args: string[]) =>
    parseEppFlags(["--endpoints", "e.yaml", ...args], {}, cgroup) as EppSettings;
  const bodies = ({ bodies: { limit, reserve } }: EppSettings): readonly number[] => [limit / MIB, reserve / MIB];

  it("comes from the cgroup, and shrinks the sizes that no flag gives", () => {
    const settings = within(512 * MIB);
    expect(bodies(settings)).toEqual([88, 22]);
    expect(settings.memory).toMatchObject({ limit: 512 * MIB, heapGrowth: 100 });
    expect(bodies(within(512 * MIB, "--body-budget=200Mi"))).toEqual([200, 22]);
    expect(bodies(within(512 * MIB, "--small-body-reserve=30Mi"))).toEqual([88, 30]);
    expect(settings.shown.find(({ name }) => name === "--body-budget")).toMatchObject({
      value: String(88 * MIB),
      source: "default",
    });
  });

  it("comes from the flag before the cgroup, and 0 takes it away", () => {
    expect(bodies(within(2048 * MIB, "--memory-limit=512Mi"))).toEqual([88, 22]);
    expect(bodies(within(512 * MIB, "--memory-limit=0"))).toEqual([256, 64]);
    expect(bodies(within(2048 * MIB))).toEqual([256, 64]);
    expect(bodies(parse())).toEqual([256, 64]);
  });

  it("never makes a reserve that is too small for one small body", () => {
    expect(bodies(within(256 * MIB, "--small-body=8Mi"))).toEqual([24, 8]);
  });
});
