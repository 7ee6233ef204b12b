import { columns } from "../../base/process/screen.ts";
import type { EndpointsFeed } from "../../wires/admin/feed/endpoints.ts";
import type { FigureName, Overview, Quantiles, WindowFigures } from "../../wires/admin/feed/overview.ts";
import type { QueuesFeed } from "../../wires/admin/feed/queues.ts";
import type { Look } from "./look.ts";

/** Events at the end of a picture. */
const EVENTS = 4;
const UNKNOWN = "-";

/** A picture of a process. @param rows the most lines */
export function pictureOf(look: Look, rows: number): string[] {
  const { hello, overview, endpoints, queues } = look;
  const { minute } = overview.windows;
  const head = [
    `sluice ${hello.kind}${hello.name === hello.kind ? "" : ` ${hello.name}`} ${hello.version}, ${hello.phase}, up ${span(hello.at - hello.startedAt)}, at ${time(hello.at)} UTC`,
    ...(hello.unready === null ? [] : [`not ready: ${hello.unready}`]),
    "",
    ...(queues.kind === "dispatch" ? messages(overview) : requests(overview, minute)),
    "",
  ];
  const waiting = queueLines(queues);
  const events = overview.events
    .slice(-EVENTS)
    .map(({ at, text, times }) => `${time(at)}  ${text}${times > 1 ? ` (and ${times - 1} more)` : ""}`);
  const tail = [...waiting, ...(events.length > 0 ? ["", ...events] : [])];
  if (endpoints === null) return [...head, ...tail].slice(0, rows);
  const room = Math.max(3, rows - head.length - tail.length - 3);
  return [...head, ...endpointLines(endpoints, room), "", ...tail].slice(0, rows);
}

/** The same in one line, for output that cannot be redrawn. */
export function summaryOf({ hello, overview, endpoints, queues }: Look): string {
  const { minute } = overview.windows;
  const now = nowOf(overview);
  if (queues.kind === "dispatch")
    return `${time(hello.at)} in flight ${now("inFlight")}, backlog ${now("backlog")}, ETA ${seconds(now("eta"))}, attempt p90 ${ms(minute.durationMs.p90)}${queues.brokerProblem === null ? "" : `, the store of the queues does not answer: ${queues.brokerProblem}`}`;
  const states = endpoints?.states ?? { up: 0, blind: 0, down: 0 };
  return `${time(hello.at)} ${rate(sum(minute.requestsPerSecond))} requests/s, TTFT p50 ${ms(minute.ttftMs.p50)} p90 ${ms(minute.ttftMs.p90)}, in flight ${now("inFlight")}, saturation ${now("saturation")}, endpoints ${states.up} up ${states.blind} blind ${states.down} down`;
}

function requests(overview: Overview, minute: WindowFigures): string[] {
  const now = nowOf(overview);
  const outcomes = Object.entries(minute.requestsPerSecond).filter(([, value]) => value > 0);
  const times: readonly (readonly [string, Quantiles])[] = [
    ["TTFT", minute.ttftMs],
    ["duration", minute.durationMs],
    ["in queue", minute.queuedMs],
  ];
  return [
    `requests/s   ${outcomes.map(([name, value]) => `${name} ${rate(value)}`).join(", ") || "none in the last minute"}`,
    `now          in flight ${now("inFlight")}, waiting ${now("waiting")}, saturation ${now("saturation")}, process ${percent(overview.figures.cpu?.at(-1))} of a core`,
    `tokens/s     prompt ${rate(minute.promptTokensPerSecond)}, output ${rate(minute.outputTokensPerSecond)}`,
    `prefix hits  predicted ${percent(minute.predictedHitRate)}, reported ${percent(minute.reportedHitRate)}`,
    ...(minute.errors.length === 0
      ? []
      : [`errors       ${minute.errors.map(({ cause, count }) => `${cause} ${count}`).join(", ")}`]),
    "",
    ...columns([
      ["last minute", "p50", "p90", "p99"],
      ...times.map(([name, { p50, p90, p99 }]) => [name, ms(p50), ms(p90), ms(p99)]),
    ]),
  ];
}

function messages(overview: Overview): string[] {
  const now = nowOf(overview);
  const { p50, p90, p99 } = overview.windows.minute.durationMs;
  const totals = Object.entries(overview.totals.messages ?? {});
  return [
    `messages   ${totals.map(([name, count]) => `${name} ${count}`).join(", ")} since the start`,
    `now        in flight ${now("inFlight")}, backlog ${now("backlog")}, oldest ${seconds(now("oldest"))}, ETA ${seconds(now("eta"))}`,
    `gate       ${now("gate") === "1" ? "open" : now("gate") === "0" ? "closed" : UNKNOWN}, D ${now("budget.D")}, B ${now("budget.B")}, N ${now("budget.N")}`,
    `attempts   p50 ${ms(p50)}, p90 ${ms(p90)}, p99 ${ms(p99)}`,
  ];
}

function endpointLines({ endpoints, columns: of, total }: EndpointsFeed, room: number): string[] {
  const order = endpoints.map((_, at) => at).sort((a, b) => of.inFlight[b]! - of.inFlight[a]!);
  const shown = order.slice(0, room);
  const rows = shown.map((at) => [
    endpoints[at]!.id,
    endpoints[at]!.state,
    ...[of.running[at], of.waiting[at]].map((value) => String(value ?? UNKNOWN)),
    ...[percent(of.kvUsage[at]), String(of.inFlight[at]), percent(of.share[at])],
    ...[rate(of.tokensPerSecond[at] ?? null), ms(of.ttftMs[at] ?? null), ms(of.ageMs[at] ?? null)],
  ]);
  const head = ["endpoint", "state", "running", "waiting", "KV", "in flight", "share", "tokens/s", "TTFT", "age"];
  const more = total - shown.length;
  return [...columns([head, ...rows]), ...(more > 0 ? [`and ${more} more`] : [])];
}

function queueLines(queues: QueuesFeed): string[] {
  switch (queues.kind) {
    case "off":
      return [];
    case "flow-control":
      return columns([
        ["band", "waiting", "flows", "ceiling", "state"],
        ...queues.bands.map(({ priority, requests: count, flowCount, ceiling, open, heldBy }) => [
          ...[String(priority), String(count), String(flowCount), String(ceiling)],
          heldBy ?? (open ? "open" : "closed"),
        ]),
      ]);
    case "dispatch":
      if (queues.queues.length === 0) return [];
      return columns([
        ["queue", "waiting", "in flight", "oldest", "ETA", "state"],
        ...queues.queues.map((queue) => [
          ...[queue.queue, String(queue.waiting ?? UNKNOWN), String(queue.claimed ?? UNKNOWN)],
          ...[seconds(String(queue.oldestAgeSeconds ?? UNKNOWN)), seconds(String(queue.etaSeconds ?? UNKNOWN))],
          queue.state,
        ]),
      ]);
  }
}

/** Reads the last value of a figure. */
function nowOf({ figures }: Overview): (name: FigureName) => string {
  return (name) => {
    const value = figures[name]?.at(-1) ?? null;
    return value === null ? UNKNOWN : String(Math.round(value * 100) / 100);
  };
}

function sum(values: Readonly<Record<string, number>>): number {
  return Object.values(values).reduce((total, value) => total + value, 0);
}

function rate(value: number | null): string {
  if (value === null) return UNKNOWN;
  return value >= 100 ? String(Math.round(value)) : String(Math.round(value * 10) / 10);
}

function percent(share: number | null | undefined): string {
  return share === null || share === undefined ? UNKNOWN : `${Math.round(share * 100)} %`;
}

function ms(value: number | null): string {
  if (value === null) return UNKNOWN;
  return value < 10_000 ? `${Math.round(value)} ms` : `${Math.round(value / 1000)} s`;
}

function seconds(value: string): string {
  return value === UNKNOWN ? UNKNOWN : `${Math.round(Number(value))} s`;
}

function span(milliseconds: number): string {
  const whole = Math.round(milliseconds / 1000);
  if (whole < 120) return `${whole} s`;
  return whole < 7200 ? `${Math.round(whole / 60)} min` : `${Math.round(whole / 3600)} h`;
}

function time(wall: number): string {
  return new Date(wall).toISOString().slice(11, 19);
}
