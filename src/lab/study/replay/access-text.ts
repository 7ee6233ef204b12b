import { type AccessEntry, numberIn, requestLineIn, textIn, timeIn } from "./access-entry.ts";

const QUOTED = '"((?:[^"\\\\]|\\\\.)*)"';

/**
 * Envoy's own format, `[time] "request" status flags`, then behind what Istio puts in between: bytes received and sent,
 * duration, time of the upstream, and five quoted texts of which the last is the upstream
 * (https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage, "Default format string").
 */
const ENVOY = new RegExp(
  `^\\[([^\\]]+)\\] ${QUOTED} (\\d+) \\S+(?: \\S+ \\S+ ${QUOTED})? (\\d+|-) (\\d+|-) (\\d+|-) \\S+ ${QUOTED} ${QUOTED} ${QUOTED} ${QUOTED} ${QUOTED}`,
);

/** Common Log Format, and what Combined adds to it: `host ident user [time] "request" status bytes "referer" "agent"`. */
const COMMON = new RegExp(`^(\\S+) (\\S+) (\\S+) \\[([^\\]]+)\\] ${QUOTED} (\\d{3}|-) (\\d+|-)(?: |$)`);

/** Whether a line is of one of the formats that `textEntry` reads. */
export function isLogLine(text: string): boolean {
  return ENVOY.test(text) || COMMON.test(text);
}

/** Reads a line of Envoy's default format or the Common or Combined Log Format. @returns what is wrong with any other */
export function textEntry(text: string): AccessEntry | string {
  const envoy = ENVOY.exec(text);
  if (envoy !== null) return envoyEntry(envoy);
  const common = COMMON.exec(text);
  if (common !== null) return commonEntry(common);
  return "neither JSON, nor Envoy's default format, nor the Common or Combined Log Format";
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
    // Apache writes when the request came, nginx when it ended. Without a duration it makes no difference here.
    ...{ start: undefined, end, durationMs: undefined, bytesReceived: undefined, upstream: undefined },
    status: numberIn(status) ?? 0,
    bytesSent: numberIn(sent),
    tenant: textIn(user),
  };
}

function noRequest(text: string): string {
  return `${JSON.stringify(text.slice(0, 60))} is no request line`;
}

function noTime(text: string): string {
  return `${JSON.stringify(text.slice(0, 60))} is no time`;
}
