const DATE = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/;
const SECONDS = /^-?\d{1,15}$/;

/**
 * When a signed URL of Google Cloud Storage expires, Unix seconds: V4 by `X-Goog-Date` and `X-Goog-Expires`, V2 by `Expires`.
 * @returns undefined when the URL does not say, or not in a way that can be read
 */
export function signedUrlExpiry(text: string): number | undefined {
  const query = URL.parse(text)?.searchParams;
  if (query === undefined) return undefined;
  const signed = dateOf(query.get("X-Goog-Date") ?? "");
  const lifetime = secondsOf(query.get("X-Goog-Expires"));
  if (signed !== undefined && lifetime !== undefined) return signed + lifetime;
  return secondsOf(query.get("Expires"));
}

function secondsOf(text: string | null): number | undefined {
  return text !== null && SECONDS.test(text) ? Number(text) : undefined;
}

/** Unix seconds of `YYYYMMDDThhmmssZ`. */
function dateOf(text: string): number | undefined {
  if (!DATE.test(text)) return undefined;
  const iso = text.replace(DATE, "$1-$2-$3T$4:$5:$6.000Z");
  const time = new Date(iso);
  // A day that the calendar lacks would count as one of the next month.
  return time.getTime() >= 0 && time.toISOString() === iso ? time.getTime() / 1000 : undefined;
}
