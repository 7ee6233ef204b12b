/** One request of an access log. Texts are at most 256 characters; undefined = the log does not contain the value. */
export interface AccessEntry {
  /** Wall-clock milliseconds of the arrival, and of the end of the request. */
  readonly start: number | undefined;
  readonly end: number | undefined;
  readonly durationMs: number | undefined;
  readonly method: string;
  /** The path without the query. */
  readonly path: string;
  /** 0 = no answer. */
  readonly status: number | undefined;
  readonly bytesReceived: number | undefined;
  readonly bytesSent: number | undefined;
  /** Whether the answer was an event stream. */
  readonly streamed: boolean | undefined;
  readonly upstream: string | undefined;
  readonly model: string | undefined;
  /** The conversation of the request. */
  readonly session: string | undefined;
  /** The client. */
  readonly tenant: string | undefined;
  readonly promptTokens: number | undefined;
  readonly outputTokens: number | undefined;
}

/** The longest text of an entry, in characters. */
const MAX_TEXT = 256;

/** A text of a log; undefined for the placeholders of logs for an absent value. */
export function textIn(value: unknown): string | undefined {
  const text = typeof value === "number" ? String(value) : value;
  if (typeof text !== "string" || text === "" || text === "-" || text === "null") return undefined;
  return text.slice(0, MAX_TEXT);
}

/** Parses `POST /v1/completions HTTP/1.1`, the form in which many logs write a request. */
export function requestLineIn(value: unknown): { readonly method: string; readonly path: string } | undefined {
  const [, method, path] = /^([A-Z]+) (\S+)(?: HTTP\/[\d.]+)?$/.exec(typeof value === "string" ? value : "") ?? [];
  return method === undefined ? undefined : { method, path: pathIn(path!) };
}

/** The path of a request target, which may be a whole URL. */
export function pathIn(target: string): string {
  const path = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "").replace(/[?#].*$/s, "");
  return (path === "" ? "/" : path).slice(0, MAX_TEXT);
}

/** The formats of times and durations in logs. */

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/** `10/Oct/2000:13:55:36 -0700`, of the Common Log Format; some add milliseconds. */
const COMMON = /^(\d{1,2})\/([A-Za-z]{3})\/(\d{4}):(\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?)(?: ([+-]\d{2}):?(\d{2}))?$/;

/**
 * Wall-clock milliseconds of a time: ISO 8601 (without a zone: UTC), the Common Log Format's, or a number since 1970. The size
 * of the number tells seconds, milliseconds, microseconds and nanoseconds apart.
 * @returns undefined for any other value
 */
export function timeIn(value: unknown): number | undefined {
  if (typeof value === "number") return sinceEpoch(value);
  if (typeof value !== "string") return undefined;
  const text = value.trim();
  if (/^\d+(\.\d+)?$/.test(text)) return sinceEpoch(Number(text));
  const [, day, month, year, clock, hours = "+00", minutes = "00"] = COMMON.exec(text) ?? [];
  if (day !== undefined) {
    const number = MONTHS.indexOf(month!.toLowerCase()) + 1;
    if (number === 0) return undefined;
    return parsed(`${year}-${two(number)}-${two(Number(day))}T${clock}${hours}:${minutes}`);
  }
  if (!/^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}/.test(text)) return undefined;
  const iso = text
    .replace(" ", "T")
    .replace(/ (?=[+-]|Z$)/, "")
    .replace(/([+-]\d{2})(\d{2})$/, "$1:$2");
  return parsed(/(?:Z|[+-]\d{2}:\d{2})$/i.test(iso) ? iso : `${iso}Z`);
}

function two(number: number): string {
  return String(number).padStart(2, "0");
}

function parsed(text: string): number | undefined {
  const time = Date.parse(text);
  return Number.isNaN(time) ? undefined : time;
}

/** Seconds have ten digits between 2001 and 2286; each smaller unit has three more. */
function sinceEpoch(value: number): number | undefined {
  if (!(value >= 0 && value < 1e20)) return undefined;
  if (value < 1e11) return value * 1000;
  if (value < 1e14) return value;
  return value < 1e17 ? value / 1000 : value / 1e6;
}

const UNITS: Readonly<Record<string, number>> = { ns: 1e-6, us: 1e-3, µs: 1e-3, ms: 1, s: 1000, m: 60_000 };

/**
 * Milliseconds of a number in `unit` milliseconds, or of a text that may name its unit, such as `1.5s`; undefined for any other
 * value.
 */
export function durationIn(value: unknown, unit: number): number | undefined {
  const number = numberIn(value);
  if (number !== undefined) return number * unit;
  const [, digits, named] =
    /^(\d+(?:\.\d+)?) ?(ns|us|µs|ms|s|m)$/.exec(typeof value === "string" ? value.trim() : "") ?? [];
  return named === undefined ? undefined : Number(digits) * UNITS[named]!;
}

/** A number from 0 up, or a text of one; undefined for any other value, such as the `-` of logs. */
export function numberIn(value: unknown): number | undefined {
  if (typeof value === "string" && !/^\s*\d+(\.\d+)?\s*$/.test(value)) return undefined;
  const number = typeof value === "string" ? Number(value) : value;
  return typeof number === "number" && number >= 0 && Number.isFinite(number) ? number : undefined;
}
