import { deepStrictEqual } from "node:assert/strict";
import { SseUsageReader } from "../../../src/picker/apis/usage/sse-usage.ts";
import type { FuzzTarget } from "../target.ts";
import { cutsOf } from "./cuts.ts";

/** However an event stream is cut, its usage and its end are the same. */
export const sse: FuzzTarget = {
  name: "sse",
  shortRuns: 4000,
  tokens: [
    ...["data: ", "data:", "data: [DONE]\n\n", "\n\n", "\r\n", "\r", "\n", "event: message_delta\n", ": ping\n"],
    ...['{"usage":{"prompt_tokens":1}}', '"usage":', '"usage":null', '"response":{', '"message":{', "null", "}}\n\n"],
    ...[
      '{"meta_info":{"completion_tokens":2}}',
      '"completion_tokens":"7"',
      '"prompt_tokens_details":{"cached_tokens":',
    ],
  ],
  run(input) {
    const answers = (["usage", "meta_info"] as const).map((key) => {
      let first: unknown;
      for (const pieces of cutsOf(input)) {
        const reader = new SseUsageReader(key);
        for (const piece of pieces) reader.feed(piece);
        const before = [reader.usage, reader.done];
        reader.finish();
        const answer = [...before, reader.usage, reader.done];
        if (first === undefined) first = answer;
        else deepStrictEqual(answer, first);
      }
      return first as [object | undefined, boolean, object | undefined, boolean];
    });
    return answers
      .map(([before, done, after, doneAfter]) => `${shape(before)} ${done} ${shape(after)} ${doneAfter}`)
      .join();
  },
};

/** Which counts are known. */
function shape(usage: object | undefined): string {
  return Object.values(usage ?? {})
    .map((count) => (Number.isNaN(count) ? "-" : "n"))
    .join("");
}
