import { counted, grouped } from "../../base/document/words.ts";
import type { EndpointFacts, RunningFacts } from "./facts.ts";
import { few } from "./few.ts";
import { ok, type Said, warn } from "./finding.ts";

/** Shares of the KV cache, of the pool and of other rooms above which little is left. */
export const FULL = 0.9;
/** Waiting requests from which an endpoint is overloaded: the default threshold of the detectors of saturation. */
const LONG_QUEUE = 5;

/** What the pool and each endpoint have left. */
export function checkLoad({ endpoints, gauges }: RunningFacts): Said[] {
  const there = endpoints.filter(({ state }) => state !== "down");
  if (there.length === 0) return [];
  const said = [...poolLoad(gauges), ...endpointLoad(there)];
  return said.length > 0 ? said : [ok(roomText(there, gauges.saturation))];
}

/** The pool as the detector of saturation sees it. */
function poolLoad({ saturation = 0, queued = 0 }: RunningFacts["gauges"]): Said[] {
  const said: Said[] = [];
  if (saturation >= 1)
    said.push(
      warn(
        `the pool is saturated (${percent(saturation)}): requests with a priority below 0 get 429; with flow control, all requests wait`,
        "add servers, or lower the load: see docs/use/flow-control.md and docs/operate/autoscaling.md",
      ),
    );
  else if (saturation > FULL)
    said.push(
      warn(
        `the pool is nearly saturated (${percent(saturation)}): at 100 %, the gateway refuses requests or lets them wait`,
        "add servers before the load grows",
      ),
    );
  if (queued > 0)
    said.push(
      warn(
        `${counted(queued, "request waits", "requests wait")} in the gateway for room at a server`,
        "if requests still wait later, add servers; /debug/queues of the admin port shows the waiting requests",
      ),
    );
  return said;
}

/** @param there at least one, none of them down */
function endpointLoad(there: readonly EndpointFacts[]): Said[] {
  const said: Said[] = [];
  const full = there.filter(({ kvUsage }) => kvUsage !== null && kvUsage > FULL);
  if (full.length > 0)
    said.push(
      warn(
        `the KV cache of ${few(full.map(({ id, kvUsage }) => `${id} (${percent(kvUsage!)})`))} is nearly full: requests wait, or the server computes them again`,
        "add servers, or shorten prompts and answers",
      ),
    );
  const waiting = there.filter((endpoint) => (endpoint.waiting ?? 0) > 0);
  const long = there.filter((endpoint) => (endpoint.waiting ?? 0) >= LONG_QUEUE);
  if (waiting.length === there.length)
    said.push(
      warn(
        `requests wait at every endpoint that is not down: ${few(waiting.map(queueText))}`,
        "add servers: each server already runs as many requests as it can",
      ),
    );
  else if (long.length > 0)
    said.push(
      warn(
        `requests wait at ${few(long.map(queueText))}, but other endpoints have room`,
        "check that the other endpoints have the same models; then raise the weight of queue-scorer (sluice explain shows the scores)",
      ),
    );
  return said;
}

/** `default/a (7 wait, 8 run)`. */
function queueText({ id, waiting, running }: EndpointFacts): string {
  return `${id} (${grouped(waiting ?? 0)} wait${running === null ? "" : `, ${grouped(running)} run`})`;
}

/** What is in use, and what is left. */
function roomText(there: readonly EndpointFacts[], saturation: number | undefined): string {
  const fullest = there.reduce((most, each) => ((each.kvUsage ?? 0) > (most.kvUsage ?? 0) ? each : most));
  const capacity = there.every((endpoint) => endpoint.capacity !== null) ? sum(there, "capacity") : undefined;
  const room = there.reduce(
    (tokens, { kvUsage, blocks, blockSize }) =>
      kvUsage === null || blocks === null || blockSize === null
        ? Number.NaN
        : tokens + blocks * blockSize * (1 - kvUsage),
    0,
  );
  return [
    ...(saturation === undefined || Number.isNaN(saturation) ? [] : [`the pool is at ${percent(saturation)}`]),
    `${grouped(sum(there, "inFlight"))} in flight`,
    `${grouped(sum(there, "running"))} running${capacity === undefined ? "" : ` (highest seen: ${grouped(capacity)})`}`,
    `${grouped(sum(there, "waiting"))} waiting`,
    `the fullest KV cache at ${percent(fullest.kvUsage ?? 0)} (${fullest.id})`,
    ...(Number.isNaN(room) ? [] : [`room for ${grouped(Math.floor(room))} tokens in the KV caches`]),
  ].join(", ");
}

function sum(endpoints: readonly EndpointFacts[], name: "waiting" | "running" | "inFlight" | "capacity"): number {
  return endpoints.reduce((total, endpoint) => total + (endpoint[name] ?? 0), 0);
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
