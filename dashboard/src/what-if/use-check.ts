import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../../../src/base/inference/errors.ts";
import type { ConfigCheck, ConfigDraft } from "../../../src/wires/admin/feed/config.ts";
import { ask, Refused } from "../feed/ask.ts";

/** Typing asks once it pauses; the process checks four texts in a second at most. */
const PAUSE_MS = 300;
const TOO_MANY = 429;

interface Checked {
  /** Of the last text that was checked. */
  readonly check: ConfigCheck | undefined;
  /** Why the present text is not checked. */
  readonly problem: string | undefined;
}

/** Asks the process what it would read in a text. Nothing changes there. */
export function useCheck(text: string): Checked {
  const [checked, setChecked] = useState<Checked>({ check: undefined, problem: undefined });
  useEffect(() => {
    const ending = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const later = (): void => {
      timer = setTimeout(send, PAUSE_MS);
    };
    const send = (): void => {
      const init = { method: "POST", headers: { "content-type": "application/json" }, signal: ending.signal };
      ask<ConfigCheck>("debug/feed/check", { ...init, body: JSON.stringify({ text } satisfies ConfigDraft) }).then(
        (check) => setChecked({ check, problem: undefined }),
        (error: unknown) => {
          if (ending.signal.aborted) return;
          if (error instanceof Refused && error.status === TOO_MANY) later();
          else setChecked({ check: undefined, problem: messageOf(error) });
        },
      );
    };
    later();
    return () => {
      ending.abort();
      clearTimeout(timer);
    };
  }, [text]);
  return checked;
}
