import { type AccessEntry, numberIn, requestLineIn, textIn, timeIn } from "./access-entry.ts";

const QUOTED = '"((?:[^"\\\\]|\\\\.)*)"';

/**
 * Envoy's own format: `[time] "request" status flags`, then optional fields of Istio, then bytes received and sent, duration,
 * and time of the upstream. Five quoted texts follow; the last one is the upstream
 * (https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage, "Default format string").
 */
const ENVOY = new RegExp(
  `^\\[([^\\]]+)\\] ${QUOTED} (\\d+) \\S+(?: \\S+ \\S+ ${QUOTED})? (\\d+|-) (\\d+|-) (\\d+|-) \\S+ ${QUOTED} ${QUOTED} ${QUOTED} ${QUOTED} ${QUOTED}`,
);

/**
 * The Common Log Format with the fields of the Combined one: `host ident user [time] "request" status bytes "referer" "agent"`.
 */
const COMMON = new RegExp(`^(\\S+) (\\S+) (\\S+) \\[([^\\]]+)\\] ${QUOTED} (\\d{3}|-) (\\d+|-)(?: |$)`);

/** Whether a line has one of the formats that `textEntry` reads. */
export function isLogLine(text: string): boolean {
  return ENVOY.test(text) || COMMON.test(text);
}

/** The problem of a line of no known format. */
export const UNKNOWN_FORMAT = "neither JSON, nor Envoy's default format, nor the Common or Combined Log Format";

/**
 * Reads a line of Envoy's default format or of the Common or Combined Log Format. @returns the problem of any other line as
 * text
 */
export function textEntry(text: string): AccessEntry | string {
  const envoy = ENVOY.exec(text);
  if (envoy !== null) return envoyEntry(envoy);
  const common = COMMON.exec(text);
  if (common !== null) return commonEntry(common);
  return UNKNOWN_FORMAT;
}

const UNSAID = {
  streamed: undefined,
  model: undefined,
  session: undefined,
  promptTokens: undefined,
  outputTokens: undefined,
};

function envoyEntry(match: RegExpExecArray): AccessEntry | string {
  const [, time, request, status, , received, sent, duration, , , , , upstream] = match;
  const line = requestLineIn(request);
  const start = timeIn(time);
  if (line === undefined || start === undefined) return line === undefined ? noRequest(request!) : noTime(time!);
  return {
    ...UNSAID,
    ...line,
    start,
    ...{ end: undefined, tenant: undefined },
    durationMs: numberIn(duration),
    status: numberIn(status),
    bytesReceived: numberIn(received),
    bytesSent: numberIn(sent),
    upstream: textIn(upstream),
  };
}

function commonEntry([, , , user, time, request, status, sent]: RegExpExecArray): AccessEntry | string {
  const line = requestLineIn(request);
  const end = timeIn(time);
  if (line === undefined || end === undefined) return line === undefined ? noRequest(request!) : noTime(time!);
  return {
    ...UNSAID,
    ...line,
    // Apache writes the time of arrival, nginx the time of the end. Without a duration the difference has no effect here.
    ...{ start: undefined, end, durationMs: undefined, bytesReceived: undefined, upstream: undefined },
    status: numberIn(status) ?? 0,
    bytesSent: numberIn(sent),
    tenant: textIn(user),
  };
}

function noRequest(text: string): string {
  return `${JSON.stringify(text.slice(0, 60))} is not a request line`;
}

function noTime(text: string): string {
  return `${JSON.stringify(text.slice(0, 60))} is not a time`;
}
