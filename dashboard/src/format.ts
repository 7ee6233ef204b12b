/** Numbers, spans and times as the page writes them. Unknown values are "–". */
import { number as figure } from "../../src/lab/study/report/plot-style.js";

/** Three digits below 1,000, all digits above. */
export { figure };

const UNKNOWN = "–";
const three = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

type Maybe = number | null | undefined;
const isKnown = (value: Maybe): value is number => value != null && Number.isFinite(value);

/** A count: all digits, with separators. */
export function count(value: Maybe): string {
  return isKnown(value) ? whole.format(value) : UNKNOWN;
}

/** A share of 1 as per cent. */
export function percent(share: Maybe): string {
  return isKnown(share)
    ? `${three.format(Math.abs(share) < 0.1 ? share * 100 : Math.round(share * 1000) / 10)} %`
    : UNKNOWN;
}

/** A span with the unit that fits. @param ms milliseconds */
export function span(ms: Maybe): string {
  if (!isKnown(ms)) return UNKNOWN;
  if (ms < 1000) return `${three.format(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 120) return `${three.format(seconds)} s`;
  if (seconds < 7200) return `${whole.format(seconds / 60)} min`;
  if (seconds < 172_800) return `${three.format(seconds / 3600)} h`;
  return `${whole.format(seconds / 86_400)} d`;
}

/** A span that the process gives in seconds. */
export function spanOfSeconds(seconds: Maybe): string {
  return span(isKnown(seconds) ? seconds * 1000 : null);
}

/** A rate in units per second. */
export function perSecond(rate: Maybe): string {
  return isKnown(rate) ? `${figure(rate)}/s` : UNKNOWN;
}

/** Bytes in the unit that fits. */
export function bytes(value: Maybe): string {
  if (!isKnown(value)) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB"];
  const step = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(value) / 10));
  return `${three.format(value / 1024 ** step)} ${units[step]}`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** The time of day. @param at wall-clock milliseconds */
export function timeOfDay(at: number): string {
  return clock.format(at);
}

const dayAndClock = new Intl.DateTimeFormat("en-GB", {
  ...({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" } as const),
});
const HALF_A_DAY = 43_200_000;

/** The time of day, and the day where it is long ago. @param at wall-clock milliseconds */
export function moment(at: number, now: number): string {
  return now - at < HALF_A_DAY ? timeOfDay(at) : dayAndClock.format(at);
}

/** Date and time with milliseconds and the time zone. @param at wall-clock milliseconds */
export function absolute(at: number): string {
  const date = new Date(at);
  const pad = (value: number, digits = 2): string => String(value).padStart(digits, "0");
  const zone = -date.getTimezoneOffset();
  const offset = `${zone < 0 ? "-" : "+"}${pad(Math.floor(Math.abs(zone) / 60))}:${pad(Math.abs(zone) % 60)}`;
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}.${pad(date.getMilliseconds(), 3)} UTC${offset}`;
}

/** A count with its noun. */
export function counted(value: number, noun: string, plural = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : plural}`;
}
