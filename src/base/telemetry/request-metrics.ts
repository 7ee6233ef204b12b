import {
  INPUT_TOKENS,
  INTER_TOKEN,
  LATENCY,
  NTPOT,
  OUTPUT_TOKENS,
  REQUEST_SIZE,
  RESPONSE_SIZE,
  TPOT,
  TTFT,
} from "./buckets.ts";
import type { TwinSpec } from "./metric-spec.ts";
import type { MetricTable } from "./registry.ts";

/** Labels of the deprecated names. */
const M = ["model_name", "target_model_name"] as const;
/** Labels of the canonical names. */
const M4 = ["model_name", "target_model_name", "fairness_id", "priority"] as const;

/**
 * Series of a family: 1,000 that clients choose, as many again for names of the operator (scheduling 8.1), and some that stand
 * for several. The code that counts keeps to this number.
 */
const MAX_SERIES = 2048;
/** The same for each error code, or for streams and others. */
const MAX_DIVIDED = 2 * MAX_SERIES;

/** The deprecated names of v1.1-v1.5 (`inference_objective_`) and of v0.3-v1.0 (`inference_model_`), in this order. */
function older(name: string, labels: readonly string[] = M): readonly TwinSpec[] {
  return [
    { name: `inference_objective_${name}`, labels },
    { name: `inference_model_${name}`, labels },
  ];
}

/** Metrics of requests (scheduling 8.3). */
export const REQUEST_METRICS = {
  requestTotal: {
    type: "counter",
    name: "llm_d_epp_request_total",
    help: "[ALPHA] Requests for which an endpoint was chosen.",
    labels: M4,
    maxSeries: MAX_SERIES,
    twins: [
      { name: "inference_objective_request_total", labels: [...M, "priority"] },
      { name: "inference_model_request_total", labels: M },
    ],
  },
  requestErrorTotal: {
    type: "counter",
    name: "llm_d_epp_request_error_total",
    help: "[ALPHA] Requests that ended in an error: Sluice refused the request, or the model server answered with a status other than 200.",
    labels: [...M4, "error_code"],
    maxSeries: MAX_DIVIDED,
    twins: older("request_error_total", [...M, "error_code"]),
  },
  requestDuration: {
    type: "histogram",
    name: "llm_d_epp_request_duration_seconds",
    help: "[ALPHA] Seconds from the headers of a request to the end of its response.",
    labels: M4,
    maxSeries: MAX_SERIES,
    buckets: LATENCY,
    twins: older("request_duration_seconds"),
  },
  requestSize: {
    type: "histogram",
    name: "llm_d_epp_request_size_bytes",
    help: "[ALPHA] Bytes of a request body.",
    labels: M4,
    maxSeries: MAX_SERIES,
    buckets: REQUEST_SIZE,
    twins: older("request_sizes"),
  },
  responseSize: {
    type: "histogram",
    name: "llm_d_epp_response_size_bytes",
    help: "[ALPHA] Bytes of a response body.",
    labels: M4,
    maxSeries: MAX_SERIES,
    buckets: RESPONSE_SIZE,
    twins: older("response_sizes"),
  },
  inputTokens: {
    type: "histogram",
    name: "llm_d_epp_request_input_tokens",
    help: "[ALPHA] Prompt tokens of a request, from the usage in the answer.",
    labels: M4,
    maxSeries: MAX_SERIES,
    buckets: INPUT_TOKENS,
    twins: older("input_tokens"),
  },
  outputTokens: {
    type: "histogram",
    name: "llm_d_epp_request_output_tokens",
    help: "[ALPHA] Completion tokens of a request, from the usage in the answer.",
    labels: M4,
    maxSeries: MAX_SERIES,
    buckets: OUTPUT_TOKENS,
    twins: older("output_tokens"),
  },
  cachedTokens: {
    type: "histogram",
    name: "llm_d_epp_request_cached_tokens",
    help: "[ALPHA] Prompt tokens of a request that the model server found in its prefix cache.",
    labels: M4,
    maxSeries: MAX_SERIES,
    buckets: INPUT_TOKENS,
    twins: [{ name: "inference_objective_prompt_cached_tokens", labels: M }],
  },
  requestRunning: {
    type: "gauge",
    name: "llm_d_epp_request_running",
    help: "[ALPHA] Requests in flight at model servers.",
    labels: M4,
    maxSeries: MAX_SERIES,
    twins: older("running_requests", ["model_name"]),
  },
  ntpot: {
    type: "histogram",
    name: "llm_d_epp_request_ntpot_seconds",
    help: "[ALPHA] Request duration in seconds, divided by the completion tokens.",
    labels: M4,
    maxSeries: MAX_SERIES,
    buckets: NTPOT,
    twins: older("normalized_time_per_output_token_seconds"),
  },
  ttft: {
    type: "histogram",
    name: "llm_d_epp_request_ttft_seconds",
    help: "[ALPHA] Seconds from the request headers to the first byte of the response body. Without streaming: to the end of the response.",
    labels: [...M4, "streaming"],
    maxSeries: MAX_DIVIDED,
    buckets: TTFT,
  },
  streamingTpot: {
    type: "histogram",
    name: "llm_d_epp_request_streaming_tpot_seconds",
    help: "[ALPHA] Seconds per completion token after the first one of a stream.",
    labels: M4,
    maxSeries: MAX_SERIES,
    buckets: TPOT,
  },
  streamingItl: {
    type: "histogram",
    name: "llm_d_epp_request_streaming_itl_seconds",
    help: "[ALPHA] Seconds between two chunks of a stream.",
    labels: M4,
    maxSeries: MAX_SERIES,
    buckets: INTER_TOKEN,
  },
} as const satisfies MetricTable;
