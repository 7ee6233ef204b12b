/** What the published charts and manifests put on the command line of the picker, and what it has to mean. */
export interface ChartVector {
  /** Release, chart and what was set. */
  readonly from: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Part of the settings of the picker. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** Flags that are warned about, in order. */
  readonly warned: readonly string[];
  /** The configuration that the release renders beside them, where it says how model servers are read. */
  readonly config?: string;
}

/** Words as a chart renders them: '' is the empty one. None has a blank inside. */
function words(text: string): readonly string[] {
  return text.split(/\s+/).map((word) => (word === "''" ? "" : word));
}

const PORTS = { grpcPort: 9002, grpcHealthPort: 9003, metricsPort: 9090 };
const DOWNWARD = { NAMESPACE: "inference", POD_NAME: "pool-epp-6d5f7c9b8-x2x1z" };
const GA = "inference.networking.k8s.io";
const CONFIG = "--zap-encoder json --config-file /config/default-plugins.yaml";
const POOL = "--pool-name pool --pool-namespace inference";
const GA_POOL = `${POOL} --pool-group ${GA}`;
const TRACED = {
  ...DOWNWARD,
  OTEL_SERVICE_NAME: "gateway-api-inference-extension/epp",
  OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4317",
  OTEL_TRACES_EXPORTER: "otlp",
  OTEL_RESOURCE_ATTRIBUTES: "k8s.namespace.name=inference,k8s.node.name=node,k8s.pod.name=pool-epp-6d5f7c9b8-x2x1z",
  OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
  OTEL_TRACES_SAMPLER_ARG: "0.1",
};

const WAITING = "total-queued-requests-metric";
const RUNNING = "total-running-requests-metric";
const CACHE = "kv-cache-usage-percentage-metric";
const LORA = "lora-info-metric";
const BLOCKS = "cache-info-metric";
const NO_METRICS = { page: {}, metrics: {} };

function pool(group: string | undefined, more: Readonly<Record<string, unknown>> = {}) {
  return {
    namespace: "inference",
    members: { kind: "pool", name: "pool", group },
    leaderElection: false,
    metricsAuth: true,
    ...more,
  };
}

function selected(ports: readonly number[], selector = "app=x") {
  return { namespace: "inference", members: { kind: "selector", selector, ports }, metricsAuth: true };
}

const TRTLLM_SERVE = {
  flags: [
    `--${WAITING}="trtllm_num_requests_waiting" --${RUNNING}="trtllm_num_requests_running"`,
    `--${CACHE}="trtllm_kv_cache_utilization" --${BLOCKS}="trtllm_cache_config_info"`,
    `--model-server-metrics-path="/prometheus/metrics" --${LORA} ''`,
  ].join(" "),
  settings: {
    page: { path: "/prometheus/metrics" },
    metrics: {
      [WAITING]: "trtllm_num_requests_waiting",
      [RUNNING]: "trtllm_num_requests_running",
      [CACHE]: "trtllm_kv_cache_utilization",
      [BLOCKS]: "trtllm_cache_config_info",
      [LORA]: "",
    },
  },
  warned: [WAITING, RUNNING, CACHE, BLOCKS, "model-server-metrics-path", LORA],
};

/** The configuration that charts of v1.5 render for a type of model server; of the scorers only the first. */
function configFor(modelServerType: string): string {
  const engine = modelServerType === "vllm" ? "" : `  parameters:\n    defaultEngine: "${modelServerType}"\n`;
  return `apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: metrics-data-source
  parameters:
    scheme: "http"
    path: "/metrics"
    insecureSkipVerify: true
- type: core-metrics-extractor
${engine}schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
    weight: 2
`;
}

const TRITON_WAITING = "nv_trt_llm_request_metrics{request_type=waiting}";
const TRITON_RUNNING = "nv_trt_llm_request_metrics{request_type=scheduled}";
const TRITON_CACHE = "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}";

/**
 * The argument lists that the charts of each generation render, release `pool` in namespace `inference`, and those of the
 * published manifests. Source: api-resources 6B.2; rendered by Helm 3.19 from the charts at the tags that are named.
 */
export const CHART_VECTORS: readonly ChartVector[] = [
  {
    from: "v0.3.0 inferencepool",
    args: words("-poolName pool -poolNamespace inference -v 3 -grpcPort 9002 -grpcHealthPort 9003 -metricsPort 9090"),
    env: { USE_STREAMING: "true" },
    settings: {
      ...PORTS,
      poolName: "pool",
      kubernetes: pool(undefined),
      configFile: undefined,
      logging: { level: "info" },
    },
    warned: [],
  },
  {
    from: "v0.3.0 manifests",
    args: words("-poolName vllm-llama3-8b-instruct -v 4 --zap-encoder json -grpcPort 9002 -grpcHealthPort 9003"),
    env: { USE_STREAMING: "true" },
    settings: {
      ...PORTS,
      kubernetes: {
        namespace: "default",
        members: { kind: "pool", name: "vllm-llama3-8b-instruct", group: undefined },
      },
      logging: { level: "debug", encoder: "json" },
      wire: { defaultBodyMode: "full-duplex" },
    },
    warned: [],
  },
  {
    from: "v1.0.0 inferencepool",
    args: words(`${POOL} ${CONFIG} --v 1`),
    env: {},
    settings: {
      ...PORTS,
      poolName: "pool",
      kubernetes: pool(undefined),
      configFile: "/config/default-plugins.yaml",
      logging: { level: "warn", encoder: "json" },
      modelServers: NO_METRICS,
      tls: { secureServing: true },
    },
    warned: [],
  },
  {
    from: "v1.0.0 inferencepool, triton-tensorrt-llm",
    args: words(`${POOL} ${CONFIG} --v 1 --${WAITING} ${TRITON_WAITING} --${CACHE} ${TRITON_CACHE} --${LORA} ''`),
    env: {},
    settings: {
      kubernetes: pool(undefined),
      modelServers: { page: {}, metrics: { [WAITING]: TRITON_WAITING, [CACHE]: TRITON_CACHE, [LORA]: "" } },
    },
    warned: [WAITING, CACHE, LORA],
  },
  {
    from: "v1.2.1 inferencepool",
    args: words(`${GA_POOL} ${CONFIG} --v 1 --tracing=false --metrics-endpoint-auth=false`),
    env: DOWNWARD,
    settings: { ...PORTS, kubernetes: pool(GA, { metricsAuth: false }), tracing: false, modelServers: NO_METRICS },
    warned: [],
  },
  {
    from: "v1.2.1 inferencepool, replicas=2, tracing, Prometheus",
    args: words(`${GA_POOL} ${CONFIG} --ha-enable-leader-election --v 1 --tracing=true`),
    env: { ...TRACED, OTEL_SERVICE_NAME: "gateway-api-inference-extension" },
    settings: { kubernetes: pool(GA, { leaderElection: true }), tracing: true },
    warned: [],
  },
  {
    from: "v1.4.0 inferencepool, sglang",
    args: words(
      `${POOL} --${WAITING}="sglang:num_queue_reqs" --${CACHE}="sglang:token_usage" ${CONFIG} --tracing=false`,
    ),
    env: DOWNWARD,
    settings: {
      kubernetes: pool(undefined),
      modelServers: { page: {}, metrics: { [WAITING]: "sglang:num_queue_reqs", [CACHE]: "sglang:token_usage" } },
    },
    warned: [WAITING, CACHE],
  },
  {
    from: "v1.5.0 inferencepool",
    args: words(`${GA_POOL} ${CONFIG} --v 1 --tracing=false`),
    env: DOWNWARD,
    settings: { ...PORTS, kubernetes: pool(GA), tracing: false, modelServers: NO_METRICS },
    warned: [],
    config: configFor("vllm"),
  },
  {
    from: "v1.5.0 inferencepool, sglang",
    args: words(
      `${GA_POOL} --${WAITING}="sglang:num_queue_reqs" --${RUNNING}="sglang:num_running_reqs" --${CACHE}="sglang:token_usage"
       --${BLOCKS}="sglang:cache_config_info" ${CONFIG} --v 1 --tracing=false`,
    ),
    env: DOWNWARD,
    settings: {
      kubernetes: pool(GA),
      modelServers: {
        page: {},
        metrics: {
          [WAITING]: "sglang:num_queue_reqs",
          [RUNNING]: "sglang:num_running_reqs",
          [CACHE]: "sglang:token_usage",
          [BLOCKS]: "sglang:cache_config_info",
        },
      },
    },
    warned: [WAITING, RUNNING, CACHE, BLOCKS],
    config: configFor("sglang"),
  },
  {
    from: "v1.5.0 inferencepool, triton-tensorrt-llm",
    args: words(
      `${GA_POOL} --${WAITING} ${TRITON_WAITING} --${RUNNING} ${TRITON_RUNNING} --${CACHE} ${TRITON_CACHE} --${LORA} ''
       ${CONFIG} --v 1 --tracing=false`,
    ),
    env: DOWNWARD,
    settings: {
      kubernetes: pool(GA),
      configFile: "/config/default-plugins.yaml",
      modelServers: {
        page: {},
        metrics: { [WAITING]: TRITON_WAITING, [RUNNING]: TRITON_RUNNING, [CACHE]: TRITON_CACHE, [LORA]: "" },
      },
    },
    warned: [WAITING, RUNNING, CACHE, LORA],
    config: configFor("triton-tensorrt-llm"),
  },
  {
    from: "v1.5.0 inferencepool, trtllm-serve",
    args: words(`${GA_POOL} ${TRTLLM_SERVE.flags} ${CONFIG} --v 1 --tracing=false`),
    env: DOWNWARD,
    settings: {
      kubernetes: pool(GA),
      configFile: "/config/default-plugins.yaml",
      modelServers: TRTLLM_SERVE.settings,
    },
    warned: TRTLLM_SERVE.warned,
    config: configFor("trtllm-serve"),
  },
  {
    from: "v1.5.0 inferencepool, replicas=3, tracing, no metrics authentication, a map of flags",
    args: words(
      `${GA_POOL} ${CONFIG} --ha-enable-leader-election --enable-pprof true --metrics-staleness-threshold 5s
       --secure-serving false --v 1 --tracing=true --metrics-endpoint-auth=false`,
    ),
    env: TRACED,
    settings: {
      kubernetes: pool(GA, { leaderElection: true, metricsAuth: false }),
      tls: { secureServing: false },
      pprof: true,
      metricsStalenessThreshold: 5000,
      tracing: true,
    },
    warned: [],
    config: configFor("vllm"),
  },
  {
    from: "v1.5.0 standalone",
    args: words(`${GA_POOL} ${CONFIG} --tracing=false`),
    env: DOWNWARD,
    settings: { ...PORTS, kubernetes: pool(GA), logging: { level: "info" } },
    warned: [],
    config: configFor("vllm"),
  },
  {
    from: "v1.5.0 standalone without a pool, trtllm-serve",
    args: words(
      `--endpoint-selector app=x --endpoint-target-ports 8000 ${TRTLLM_SERVE.flags} ${CONFIG} --tracing=false`,
    ),
    env: DOWNWARD,
    settings: { ...PORTS, poolName: "pool-epp", kubernetes: selected([8000]), modelServers: TRTLLM_SERVE.settings },
    warned: TRTLLM_SERVE.warned,
    config: configFor("trtllm-serve"),
  },
  {
    from: "v1.5.0 standalone without a pool, two labels, two ports",
    args: words(`--endpoint-selector app=x,role=y --endpoint-target-ports 8000,8001 ${CONFIG} --tracing=false`),
    env: DOWNWARD,
    settings: { poolName: "pool-epp", kubernetes: selected([8000, 8001], "app=x,role=y") },
    warned: [],
    config: configFor("vllm"),
  },
  {
    from: "v1.5.0 conformance manifests",
    args: words(
      `--pool-name primary-inference-pool --pool-namespace inference-conformance-app-backend --v 4 --zap-encoder json
       --grpc-port 9002 --grpc-health-port 9003 --config-file /config/conformance-plugins.yaml`,
    ),
    env: {},
    settings: {
      ...PORTS,
      kubernetes: {
        namespace: "inference-conformance-app-backend",
        members: { kind: "pool", name: "primary-inference-pool", group: undefined },
      },
      configFile: "/config/conformance-plugins.yaml",
      logging: { level: "debug" },
    },
    warned: [],
  },
  {
    from: "v1.6.0 conformance manifests",
    args: words(
      `--pool-name secondary-inference-pool --pool-namespace inference-conformance-app-backend --zap-encoder json
       --grpc-port 9002 --grpc-health-port 9003`,
    ),
    env: {},
    settings: { ...PORTS, poolName: "secondary-inference-pool", configFile: undefined },
    warned: [],
  },
  {
    from: "llm-d-router-gateway",
    args: words(`${GA_POOL} ${CONFIG} --grpc-health-port 9003 --tracing=false`),
    env: DOWNWARD,
    settings: { ...PORTS, kubernetes: pool(GA), modelServers: NO_METRICS },
    warned: [],
  },
  {
    from: "llm-d-router-gateway, replicas=2, health port, tracing, no metrics authentication, a map of flags",
    args: words(
      `${GA_POOL} ${CONFIG} --ha-enable-leader-election --grpc-health-port 9013 --drain-timeout=45s --secure-serving=false
       --v=4 --tracing=true --metrics-endpoint-auth=false`,
    ),
    env: { ...TRACED, OTEL_SERVICE_NAME: "llm-d-router/epp" },
    settings: {
      ...PORTS,
      grpcHealthPort: 9013,
      kubernetes: pool(GA, { leaderElection: true, metricsAuth: false }),
      drainTimeout: 45_000,
      tls: { secureServing: false },
      logging: { level: "debug" },
    },
    warned: [],
  },
  {
    from: "llm-d-router-gateway with the latency predictor",
    args: words(`${GA_POOL} ${CONFIG} --grpc-health-port 9003 --tracing=false`),
    env: {
      ...DOWNWARD,
      PREDICTION_SERVER_URL: "http://localhost:8001",
      TRAINING_SERVER_URL: "http://localhost:8000",
      LATENCY_COALESCE_WINDOW_MS: "1",
      LATENCY_MAX_CONCURRENT_DISPATCHES: "36",
      LATENCY_MAX_SAMPLE_SIZE: "10000",
    },
    settings: { ...PORTS, kubernetes: pool(GA) },
    warned: [],
  },
  {
    from: "llm-d-router-standalone without a pool",
    args: words(
      `--endpoint-selector app=x --endpoint-target-ports 8000,8001 ${CONFIG} --grpc-health-port 9003 --tracing=false`,
    ),
    env: DOWNWARD,
    settings: { ...PORTS, poolName: "pool-epp", kubernetes: selected([8000, 8001]) },
    warned: [],
  },
  {
    from: "llm-d-router-standalone without a pool, agentgateway",
    args: words(
      `--endpoint-selector app=x --endpoint-target-ports 8000 ${CONFIG} --grpc-health-port 9003 --secure-serving=false
       --tracing=false`,
    ),
    env: DOWNWARD,
    settings: { kubernetes: selected([8000]), tls: { secureServing: false } },
    warned: [],
  },
];
