import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../../../src/base/inference/errors.ts";

/** The process refuses. Its message is a sentence for people. */
export class Refused extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Asks the process for JSON. @throws Refused, or Error with the reason why there is no answer */
export async function ask<T>(path: string, init: RequestInit = {}): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(path, { cache: "no-store", ...init });
  } catch (error) {
    if (init.signal?.aborted === true) throw error;
    throw new Error("the process does not answer");
  }
  const text = await answer.text();
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    if (answer.ok) throw new Error(`${path} gave no JSON`);
    throw new Refused(answer.status, text.trim() || `status ${answer.status}`);
  }
  if (answer.ok) return body as T;
  const problem = (body as { readonly error?: unknown } | null)?.error;
  throw new Refused(answer.status, typeof problem === "string" ? problem : `status ${answer.status}`);
}

/** The newest answer, and the problem of the last attempt. An answer stays while later attempts fail. */
export interface Asked<T> {
  readonly data: T | undefined;
  readonly problem: string | undefined;
}

/** Gives an order to the process. @throws Refused, or Error with the reason why there is no answer */
export function order<T>(path: string, body: object): Promise<T> {
  return ask<T>(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

/**
 * Asks now, again whenever the path or the turn changes, and every `everyMs` while the page is visible.
 * @param path undefined = do not ask @param everyMs undefined = once
 */
export function useAsked<T>(path: string | undefined, everyMs?: number, turn = 0): Asked<T> {
  const [asked, setAsked] = useState<Asked<T> & { readonly path: string | undefined }>({
    ...{ data: undefined, problem: undefined, path },
  });
  useEffect(() => {
    if (path === undefined) return undefined;
    const ending = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const again = (): void => {
      if (everyMs !== undefined && !ending.signal.aborted) timer = setTimeout(next, everyMs);
    };
    const next = (): void => {
      if (document.hidden) {
        again();
        return;
      }
      ask<T>(path, { signal: ending.signal }).then(
        (data) => {
          setAsked({ data, problem: undefined, path });
          again();
        },
        (error: unknown) => {
          if (ending.signal.aborted) return;
          setAsked((before) => ({
            ...{ data: before.path === path ? before.data : undefined, problem: messageOf(error), path },
          }));
          again();
        },
      );
    };
    next();
    return () => {
      ending.abort();
      clearTimeout(timer);
    };
  }, [path, everyMs, turn]);
  // An answer about another path says nothing about this one.
  return asked.path === path ? asked : { data: undefined, problem: undefined };
}
