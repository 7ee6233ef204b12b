import type { IncomingHttpHeaders } from "node:http";

/** What a request was, and what became of it. Times are Unix milliseconds of this machine. */
export interface Outcome {
  readonly caller: string;
  readonly model: string;
  readonly kind: string;
  readonly stream: boolean;
  readonly start: number;
  readonly end: number;
  /** 0 = no answer began. */
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** "" = the answer is whole and right, or the client did not wait for one. */
  readonly problem: string;
  /** The beginning of a refusal. */
  readonly text: string;
}

/** A span in which something was done to a part. */
interface Span {
  readonly from: number;
  readonly until: number;
}

/** A model server that was ended. */
export interface Kill {
  readonly server: string;
  readonly from: number;
  /** When it was gone for certain. */
  readonly gone: number;
}

/** What was done to the parts. */
export interface Faults {
  readonly kills: Kill[];
  /** No server of the model was there. */
  readonly absences: (Span & { readonly model: string })[];
  /** Callers with a limit, and the `error.type` of their refusals. */
  readonly limited: ReadonlyMap<string, string>;
  /** Callers whose key ends: `from` = may be refused from then on, `until` = must be refused from then on. */
  readonly ends: Map<string, Span & { readonly words: RegExp }>;
  /** Servers that the configuration of the picker left out. */
  readonly steered: (Span & { readonly server: string })[];
}

interface ErrorBody {
  readonly error?: { readonly type?: unknown; readonly code?: unknown; readonly message?: unknown };
}

/** `error` of a refusal; nothing for a text that is none. */
function errorIn(text: string): NonNullable<ErrorBody["error"]> {
  try {
    return (JSON.parse(text) as ErrorBody).error ?? {};
  } catch {
    return {};
  }
}

/**
 * What the outcome is: "answered", or a failure with the injected fault that explains it.
 * @returns undefined = a fault of the gateway
 */
export function verdict(outcome: Outcome, faults: Faults): string | undefined {
  const { caller, start, end, status, problem } = outcome;
  const ends = faults.ends.get(caller);
  const pod = outcome.headers["x-inference-pod"];
  if (status === 200 && problem === "") {
    // Whoever began before the end of the span may have been decided about after it.
    const isAstray = faults.steered.some(({ server, from, until }) => server === pod && start >= from && end <= until);
    return isAstray || (ends !== undefined && start > ends.until) ? undefined : "answered";
  }
  if (status === 0 && problem === "") return "answered";
  const error = errorIn(outcome.text);
  switch (status) {
    case 200: {
      const killed = faults.kills.some((kill) => kill.server === pod && start <= kill.gone && end >= kill.from);
      return outcome.stream && killed ? "a stream of a killed server" : undefined;
    }
    case 401: {
      const right = error.code === "invalid_api_key" && ends?.words.test(String(error.message)) === true;
      return right && end >= ends.from ? "the key has ended" : undefined;
    }
    case 429: {
      const wait = Number(outcome.headers["retry-after-ms"]);
      const right = error.code === "rate_limit_exceeded" && error.type === faults.limited.get(caller) && wait > 0;
      return right ? "above the limit" : undefined;
    }
    case 503: {
      const absent = faults.absences.some(
        ({ model, from, until }) => model === outcome.model && start <= until && end >= from,
      );
      return absent && Number(outcome.headers["retry-after"]) > 0 ? "no server of the model" : undefined;
    }
    default:
      return undefined;
  }
}
