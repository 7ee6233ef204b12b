/** What a finished event stream holds. */
export interface EventStream {
  /** The data of each event, lines joined, `[DONE]` left out; the first `MAX_EVENTS`. */
  readonly events: readonly string[];
  /** `data: [DONE]` came. */
  readonly done: boolean;
  /** Something came behind it. */
  readonly afterDone: boolean;
}

/** Far above what a request for four tokens yields. */
const MAX_EVENTS = 4096;

/** Reads a complete `text/event-stream` body (WHATWG HTML 9.2); comments and fields other than `data` are passed over. */
export function readEvents(body: Uint8Array): EventStream {
  const events: string[] = [];
  let done = false;
  let afterDone = false;
  let data: string[] = [];
  const dispatch = (): void => {
    if (data.length === 0) return;
    const text = data.join("\n");
    data = [];
    if (done) afterDone = true;
    else if (text === "[DONE]") done = true;
    else if (events.length < MAX_EVENTS) events.push(text);
  };
  for (const line of new TextDecoder().decode(body).split(/\r\n|\n|\r/)) {
    if (line === "") dispatch();
    else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
  }
  // Strictly, an event without its empty line is none; readers of this API take it all the same.
  dispatch();
  return { events, done, afterDone };
}
