import type { Clock } from "../../../base/clock/clock.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import type { HistoryFeed, HistoryFigure, HistorySpan } from "../feed/history.ts";
import { shown } from "./process.ts";
import { HistoryError, type HistorySource } from "./source.ts";

/** Seconds of each span, and between two values: at most 362 values. */
const SPANS: Readonly<Record<HistorySpan, readonly [seconds: number, step: number]>> = {
  "1h": [3600, 15],
  "6h": [21_600, 60],
  "24h": [86_400, 240],
  "7d": [604_800, 1800],
};
/** The least window of a rate in seconds: two samples of a slow scraper. */
const LEAST_WINDOW = 60;
/** Milliseconds for an answer of Prometheus, and for which an answer counts again. */
const TIMEOUT = 10_000;
const FRESH = 10_000;
const MAX_BYTES = 1 << 20;
const MAX_SERIES = 32;
const MAX_CACHED = 32;
/** Questions at a time; the next one is refused. */
const MAX_ASKED = 8;

interface Row {
  readonly unit: HistoryFeed["unit"];
  /** The queries, each with the name of its series, or with the label that names several. `W` is the window of a rate. */
  readonly queries: readonly (readonly [query: string, name: string | { readonly label: string }])[];
}

const quantiles = (metric: string): Row => ({
  unit: "ms",
  queries: ([0.5, 0.9, 0.99] as const).map((q) => [
    `1000 * histogram_quantile(${q}, sum by (le) (rate(${metric}_bucket[W])))`,
    `p${Math.round(q * 100)}`,
  ]),
});

/** Every query that this process ever sends. Sums are over all processes that Prometheus scrapes. */
const FIGURES: Readonly<Record<HistoryFigure, Row>> = {
  requests: {
    unit: "1/s",
    queries: [["sum by (outcome) (rate(sluice_exchanges_total[W]))", { label: "outcome" }]],
  },
  errors: {
    unit: "1/s",
    queries: [["sum by (error_code) (rate(llm_d_epp_request_error_total[W]))", { label: "error_code" }]],
  },
  ttft: quantiles("llm_d_epp_request_ttft_seconds"),
  duration: quantiles("llm_d_epp_request_duration_seconds"),
  tokens: {
    unit: "1/s",
    queries: [
      ["sum(rate(llm_d_epp_request_input_tokens_sum[W]))", "prompt"],
      ["sum(rate(llm_d_epp_request_output_tokens_sum[W]))", "output"],
    ],
  },
  prefix: {
    unit: "share",
    queries: [
      [
        "sum(rate(llm_d_epp_prefix_indexer_hit_ratio_sum[W])) / sum(rate(llm_d_epp_prefix_indexer_hit_ratio_count[W]))",
        "predicted",
      ],
      [
        "sum(rate(llm_d_epp_request_cached_tokens_sum[W])) / sum(rate(llm_d_epp_request_input_tokens_sum[W]))",
        "reported",
      ],
    ],
  },
  saturation: {
    unit: "share",
    queries: [["max(llm_d_epp_flow_control_pool_saturation)", "saturation"]],
  },
  inFlight: { unit: "count", queries: [["sum(llm_d_epp_request_running)", "in flight"]] },
  waiting: { unit: "count", queries: [["sum(llm_d_epp_flow_control_queue_size)", "waiting"]] },
  endpoints: { unit: "count", queries: [["sum by (state) (sluice_endpoint_state)", { label: "state" }]] },
  messages: {
    unit: "1/s",
    queries: (
      [
        ["successful_requests", "succeeded"],
        ["request_retries", "retried"],
        ["failed_requests", "failed"],
        ["exceeded_deadline_requests", "expired"],
        ["shedded_requests", "shed"],
      ] as const
    ).map(([metric, name]) => [`sum(rate(llm_d_async_async_${metric}_total[W]))`, name]),
  },
  backlog: {
    unit: "count",
    queries: [["sum by (queue_name) (llm_d_async_async_broker_backlog)", { label: "queue_name" }]],
  },
  budget: {
    unit: "share",
    queries: [["avg by (queue_name) (llm_d_async_async_dispatch_budget)", { label: "queue_name" }]],
  },
};

/** Sends one GET and returns the body; rejects where there is none of at most `MAX_BYTES` before `over`. */
export type AskPrometheus = (
  url: string,
  headers: Readonly<Record<string, string>>,
  over: AbortSignal,
) => Promise<string>;

/** @throws when Prometheus does not answer with 200 */
const ask: AskPrometheus = async (url, headers, over) => {
  const answer = await fetch(url, { headers, redirect: "error", signal: over });
  let text = "";
  let bytes = 0;
  const decoder = new TextDecoder();
  for await (const chunk of answer.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > MAX_BYTES) throw new Error(`its answer has more than ${MAX_BYTES} bytes`);
    text += decoder.decode(chunk, { stream: true });
  }
  if (answer.status !== 200) throw new Error(`it answers ${answer.status}`);
  return text;
};

/**
 * Reads longer spans from one Prometheus: fixed queries only, few at a time, and an answer counts for 10 s.
 * @param address `http://host:port/path`, with or without user and password
 * @throws SluiceError FLAG_VALUE for another address
 */
export function prometheusHistory(address: string, flag: string, clock: Clock, send = ask): HistorySource {
  const { base, headers } = targetOf(address, flag);
  const answers = new Map<string, { readonly at: number; readonly answer: Promise<HistoryFeed> }>();
  let asked = 0;
  const read = async (figure: HistoryFigure, span: HistorySpan, to: number): Promise<HistoryFeed> => {
    if (asked >= MAX_ASKED) throw new HistoryError("too many questions wait for Prometheus; try again");
    asked++;
    // The first query that fails ends the others, too.
    const over = new AbortController();
    try {
      const [length, step] = SPANS[span];
      const from = to - length;
      const { unit, queries } = FIGURES[figure];
      const window = `${Math.max(LEAST_WINDOW, step)}s`;
      const parts = await Promise.all(
        queries.map(async ([query, name]) => {
          const parameters = { query: query.replaceAll("W]", `${window}]`), start: from, end: to, step };
          const search = new URLSearchParams(Object.entries(parameters).map(([key, value]) => [key, String(value)]));
          return seriesOf(
            await send(
              `${base}/api/v1/query_range?${search}`,
              headers,
              AbortSignal.any([over.signal, AbortSignal.timeout(TIMEOUT)]),
            ),
            name,
            from,
            to,
            step,
          );
        }),
      );
      return { figure, from, step, unit, series: parts.flat().slice(0, MAX_SERIES) };
    } catch (error) {
      if (error instanceof HistoryError) throw error;
      // The message may hold the address, which may hold a password.
      const cause = error instanceof Error && /^its? answer/.test(error.message) ? `: ${error.message}` : "";
      throw new HistoryError(`Prometheus gave no usable answer${cause}`);
    } finally {
      over.abort();
      asked--;
    }
  };
  return {
    read(figure, span, end) {
      const now = clock.now();
      const step = SPANS[span][1];
      const to = Math.floor((end ?? clock.wall() / 1000) / step) * step;
      const key = `${figure} ${span} ${to}`;
      const known = answers.get(key);
      if (known !== undefined && now - known.at < FRESH) return known.answer;
      const answer = read(figure, span, to);
      answers.delete(key);
      answers.set(key, { at: now, answer });
      if (answers.size > MAX_CACHED) answers.delete(answers.keys().next().value!);
      answer.catch(() => answers.delete(key));
      return answer;
    },
  };
}

function targetOf(address: string, flag: string): { base: string; headers: Readonly<Record<string, string>> } {
  const url = URL.parse(address);
  if (url === null || !/^https?:$/.test(url.protocol) || url.search !== "" || url.hash !== "")
    throw new SluiceError("FLAG_VALUE", `${flag} takes the address of a Prometheus, such as http://prometheus:9090`);
  const { username, password } = url;
  let credentials: string;
  try {
    credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  } catch {
    throw new SluiceError("FLAG_VALUE", `${flag}: write each % of the user and the password as %25`);
  }
  url.username = "";
  url.password = "";
  return {
    base: url.href.replace(/\/+$/, ""),
    headers:
      username === "" && password === ""
        ? {}
        : { authorization: `Basic ${Buffer.from(credentials).toString("base64")}` },
  };
}

/** The series of one answer, with a value or null for each step. */
function seriesOf(
  text: string,
  name: string | { readonly label: string },
  from: number,
  to: number,
  step: number,
): HistoryFeed["series"] {
  let result: unknown;
  try {
    const answer = JSON.parse(text) as { status?: unknown; data?: { resultType?: unknown; result?: unknown } };
    if (answer.status === "success" && answer.data?.resultType === "matrix") result = answer.data.result;
  } catch {
    // Reported below.
  }
  if (!Array.isArray(result))
    throw new HistoryError("the server at the Prometheus address does not answer like a Prometheus");
  const count = Math.floor((to - from) / step) + 1;
  return result.slice(0, MAX_SERIES).map((one: { metric?: Record<string, string>; values?: unknown }) => {
    const values = new Array<number | null>(count).fill(null);
    for (const pair of Array.isArray(one.values) ? one.values : []) {
      const [at, value] = Array.isArray(pair) ? pair : [];
      const place = Math.round((Number(at) - from) / step);
      if (place >= 0 && place < count) values[place] = shown(Number(value));
    }
    return { name: typeof name === "string" ? name : String(one.metric?.[name.label] ?? ""), values };
  });
}
