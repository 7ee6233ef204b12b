/** The most of N in `1/N`. */
const MOST_EVERY = 1_000_000;

/** The values of `--request-log` and of `log.requests.which`, for messages. */
export const WHICH_REQUESTS = `give off, errors, all, or 1/N with N from 1 to ${MOST_EVERY}`;

/** One in how many requests that end well gets a line, 0 = none; undefined = no request gets one. */
export function requestLogEvery(text: string): number | undefined | "wrong" {
  switch (text) {
    case "off":
      return undefined;
    case "errors":
      return 0;
    case "all":
      return 1;
  }
  const every = Number(/^1\/([1-9]\d*)$/.exec(text)?.[1]);
  return every <= MOST_EVERY ? every : "wrong";
}
