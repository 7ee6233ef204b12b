import type { Endpoint } from "../../base/inference/endpoint.ts";
import { columns } from "../../base/process/screen.ts";
import type { HalfSummary } from "./half.ts";
import type { PartProcess } from "./part-process.ts";

const HEAD = ["policy", "requests", "failed", "cut", "TTFT p50", "TTFT p90", "tokens/s", "cache hits"];

/** The halves side by side. */
export function comparison(summaries: readonly HalfSummary[]): string[] {
  return columns([HEAD, ...summaries.map(row)]);
}

/** The live table: the halves so far, and what is in flight at each server. */
export function livePicture(
  summaries: readonly HalfSummary[],
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
  return ["", ...comparison(summaries), "", ...columns(rows)];
}

/** The newest half in one line, for output that can't be redrawn. */
export function oneLine(summary: HalfSummary, servers: readonly PartProcess[], endpoints: readonly Endpoint[]): string {
  const load = servers.map((server) => {
    const endpoint = endpoints.find((candidate) => candidate.name === server.name);
    return server.pid === undefined ? "away" : String(endpoint?.inFlight.requests ?? 0);
  });
  const [name, requests, failed, cut, p50, p90, tokens, hits] = row(summary);
  return `${name}: ${requests} requests, ${failed} failed, ${cut} cut, TTFT p50 ${p50} p90 ${p90}, ${tokens} tokens/s, ${hits} cache hits, in flight ${load.join(" ")}`;
}

function row(summary: HalfSummary): string[] {
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
