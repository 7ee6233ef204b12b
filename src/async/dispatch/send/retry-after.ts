const SECONDS = /^\d+$/;
const MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec";
const TIME = "\\d{2}:\\d{2}:\\d{2}";
/** The three forms of RFC 9110 5.6.7; the last one names no time zone. */
const PREFERRED = new RegExp(`^[A-Z][a-z]{2}, \\d{2} (${MONTHS}) \\d{4} ${TIME} GMT$`);
const WITH_DASHES = new RegExp(`^[A-Z][a-z]{5,8}, \\d{2}-(${MONTHS})-\\d{2} ${TIME} GMT$`);
const OF_C = new RegExp(`^[A-Z][a-z]{2} (${MONTHS}) [ \\d]\\d ${TIME} \\d{4}$`);

/** A year: finite, and longer than any deadline is worth waiting for. */
const LONGEST_MS = 365 * 24 * 3_600_000;

/**
 * The pause of `Retry-After`, in milliseconds from 0 to a year; undefined when it is missing or illegal. A date counts from the
 * `Date` of the same answer where there is one, so that a server with a wrong clock gets the pause that it meant.
 * Source: async-processor 5.2.6; RFC 9110 10.2.3.
 * @param wall Unix milliseconds
 */
export function retryAfterMs(value: string | undefined, date: string | undefined, wall: number): number | undefined {
  if (value === undefined) return undefined;
  if (SECONDS.test(value)) return Math.min(LONGEST_MS, Number(value) * 1000);
  const until = httpDate(value);
  if (until === undefined) return undefined;
  const from = date === undefined ? wall : (httpDate(date) ?? wall);
  return Math.min(LONGEST_MS, Math.max(0, until - from));
}

/** Unix milliseconds of an HTTP date; undefined when it is none. */
function httpDate(text: string): number | undefined {
  let time = Number.NaN;
  if (PREFERRED.test(text) || WITH_DASHES.test(text)) time = Date.parse(text);
  else if (OF_C.test(text)) time = Date.parse(`${text} GMT`);
  return Number.isNaN(time) ? undefined : time;
}
