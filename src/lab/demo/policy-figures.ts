import type { Endpoint } from "../../base/inference/endpoint.ts";
import { columns } from "../../base/process/screen.ts";
import { quantile } from "../../base/telemetry/quantile.ts";
import { isTooBusy, type LagSummary } from "./lag.ts";
import type { PartProcess } from "./part-process.ts";
import type { RequestOutcome } from "./traffic.ts";

/** The figures of one half of the demo, in the shape of `--json`. */
export interface PolicySummary {
  readonly name: string;
  readonly requests: number;
  readonly failed: number;
  readonly interrupted: number;
  readonly ttftMs: { readonly p50: number; readonly p90: number };
  readonly outputTokensPerSecond: number;
  readonly cacheHitRate: number;
  /** Delays of timers of this process during the half. */
  readonly lagMs: LagSummary;
  /** The machine was too busy: it dominates the measured times. */
  readonly tooBusy: boolean;
}

/** The most times behind a quantile: the last ones count. */
const MAX_TIMES = 10_000;

/** Gathers the results of the requests of one half. */
export class PolicyFigures {
  readonly name: string;
  readonly #ttfts: number[] = [];
  #timed = 0;
  #requests = 0;
  #failed = 0;
  #interrupted = 0;
  #tokens = 0;
  /** The first few problems, for people. */
  readonly problems: string[] = [];

  constructor(name: string) {
    this.name = name;
  }

  add(outcome: RequestOutcome): void {
    this.#requests++;
    this.#tokens += outcome.outputTokens;
    if (!Number.isNaN(outcome.ttftMs)) this.#ttfts[this.#timed++ % MAX_TIMES] = outcome.ttftMs;
    if (outcome.kind === "failed") this.#failed++;
    if (outcome.kind === "interrupted") this.#interrupted++;
    if (outcome.kind === "failed" && this.problems.length < 5) this.problems.push(outcome.detail);
  }

  /** @param seconds since the start of the half @param hitRate cached prompt tokens divided by all prompt tokens, 0..1 */
  summary(seconds: number, hitRate: number, lagMs: LagSummary): PolicySummary {
    const sorted = [...this.#ttfts].sort((a, b) => a - b);
    return {
      name: this.name,
      requests: this.#requests,
      failed: this.#failed,
      interrupted: this.#interrupted,
      ttftMs: { p50: round(quantile(sorted, 0.5)), p90: round(quantile(sorted, 0.9)) },
      outputTokensPerSecond: round(seconds > 0 ? this.#tokens / seconds : 0),
      cacheHitRate: Math.round(hitRate * 1000) / 1000,
      lagMs,
      tooBusy: isTooBusy(lagMs),
    };
  }
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

const HEAD = ["policy", "requests", "failed", "cut", "TTFT p50", "TTFT p90", "tokens/s", "cache hits"];

/** The halves in columns. */
export function policyFiguresTable(summaries: readonly PolicySummary[]): string[] {
  return columns([HEAD, ...summaries.map(row)]);
}

/** The live table: the halves so far, and the requests in flight at each server. */
export function livePicture(
  summaries: readonly PolicySummary[],
  servers: readonly PartProcess[],
  endpoints: readonly Endpoint[],
): string[] {
  const rows = servers.map((server) => {
    const endpoint = endpoints.find((candidate) => candidate.name === server.name);
    const inFlight = endpoint?.inFlight.requests ?? 0;
    const who = server.pid === undefined ? "away" : `pid ${server.pid}`;
    return [
      server.name,
      who,
      endpoint?.state ?? "?",
      `${inFlight} in flight`,
      "#".repeat(Math.min(40, inFlight)).padEnd(40),
    ];
  });
  return ["", ...policyFiguresTable(summaries), "", ...columns(rows)];
}

/** The newest half in one line, for output that cannot be redrawn. */
export function policyLine(
  summary: PolicySummary,
  servers: readonly PartProcess[],
  endpoints: readonly Endpoint[],
): string {
  const load = servers.map((server) => {
    const endpoint = endpoints.find((candidate) => candidate.name === server.name);
    return server.pid === undefined ? "away" : String(endpoint?.inFlight.requests ?? 0);
  });
  const [name, requests, failed, cut, p50, p90, tokens, hits] = row(summary);
  return `${name}: ${requests} requests, ${failed} failed, ${cut} cut, TTFT p50 ${p50} p90 ${p90}, ${tokens} tokens/s, ${hits} cache hits, in flight ${load.join(" ")}`;
}

function row(summary: PolicySummary): string[] {
  return [
    summary.name,
    String(summary.requests),
    String(summary.failed),
    String(summary.interrupted),
    `${Math.round(summary.ttftMs.p50)} ms`,
    `${Math.round(summary.ttftMs.p90)} ms`,
    String(Math.round(summary.outputTokensPerSecond)),
    `${Math.round(summary.cacheHitRate * 100)} %`,
  ];
}
