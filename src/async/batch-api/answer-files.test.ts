import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ResultMessage } from "../brokers/messages/message.ts";
import { errorResult } from "../brokers/messages/result.ts";
import { AnswerFiles, type AnswerJournal, lineOfRequest, requestId } from "./answer-files.ts";

const ID = `batch_${"ab".repeat(16)}`;
let folder: string;
let paths: { outputs: string; errors: string };

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-answers-"));
  paths = { outputs: join(folder, "out"), errors: join(folder, "err") };
});
afterEach(() => rmSync(folder, { recursive: true }));

const open = (): Promise<AnswerFiles> => AnswerFiles.open(ID, paths, 10, async () => {});
const result = (body: string, statusCode = 200): ResultMessage => ({
  ...{ ...errorResult("x", "CANCELLED", ""), errorCode: "" as const },
  ...{ statusCode, payload: Buffer.from(body) },
});

describe("the files of answers", () => {
  it("are made anew from a journal, which has each answer before they do", async () => {
    const kept: string[] = [];
    let isAway = false;
    const journal: AnswerJournal = {
      async *read() {
        yield* kept;
      },
      async append(lines) {
        if (isAway) throw new Error("away");
        kept.push(lines.join(""));
      },
    };
    const { signal } = new AbortController();
    const opened = (): Promise<AnswerFiles> => AnswerFiles.open(ID, paths, 10, async () => {}, { of: journal, signal });
    const first = await opened();
    const usage = '{"usage":{"prompt_tokens":3,"completion_tokens":2}}';
    await first.append([{ line: 1, customId: "a", outcome: result(usage) }]);
    await first.append([{ line: 2, customId: "b", outcome: "expired" }]);
    isAway = true;
    await expect(first.append([{ line: 3, customId: "c", outcome: result("{}") }])).rejects.toThrow("away");
    expect(first.isDone(3)).toBe(false);
    first.close();
    isAway = false;
    // Written by a process whose answer was lost: the same lines again, and a file that nobody has noted.
    kept.push(kept[0]!);
    appendFileSync(paths.outputs, "nonsense");
    const second = await opened();
    expect(second.counts).toEqual(first.counts);
    expect(second.counts).toMatchObject({ completed: 1, failed: 1, unanswered: 1, inputTokens: 3, outputTokens: 2 });
    expect(readFileSync(paths.outputs, "utf8")).toBe(kept[0]);
    expect(readFileSync(paths.errors, "utf8")).toBe(kept[1]);
    await second.append([{ line: 1, customId: "a", outcome: result("{}") }]);
    expect(kept).toHaveLength(3);
    second.close();
  });

  it("have each line once, and count what they hold, also after a restart", async () => {
    const files = await open();
    await files.append([
      {
        line: 1,
        customId: "a",
        outcome: result(
          '{"usage":{"input_tokens":7,"output_tokens":5,"input_tokens_details":{"cached_tokens":2},"output_tokens_details":{"reasoning_tokens":1}}}',
        ),
      },
      { line: 2, customId: "b", outcome: result("{}", 500) },
      { line: 3, customId: "c", outcome: errorResult("x", "DEADLINE_EXCEEDED", "late") },
      { line: 1, customId: "a", outcome: result("{}") },
    ]);
    await files.append([
      { line: 2, customId: "b", outcome: result("{}") },
      { line: 4, customId: "d", outcome: "cancelled" },
    ]);
    const counts = {
      completed: 1,
      failed: 3,
      unanswered: 2,
      inputTokens: 7,
      cachedTokens: 2,
      outputTokens: 5,
      reasoningTokens: 1,
    };
    expect(files.counts).toEqual(counts);
    files.close();
    expect(readFileSync(paths.outputs, "utf8").trimEnd().split("\n")).toHaveLength(1);
    expect(
      readFileSync(paths.errors, "utf8")
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line).error),
    ).toEqual([
      null,
      { code: "batch_expired", message: expect.any(String) },
      { code: "batch_cancelled", message: expect.any(String) },
    ]);
    const again = await open();
    expect(again.counts).toEqual(counts);
    expect([1, 2, 3, 4, 5].map((line) => again.isDone(line))).toEqual([true, true, true, true, false]);
    again.close();
  });

  it("lose a line that was torn, whose result is still in the queue", async () => {
    const files = await open();
    await files.append([{ line: 1, customId: "a", outcome: result("{}") }]);
    files.close();
    appendFileSync(paths.outputs, `{"id":"${requestId(ID, 2)}","custom_id":"b","resp`);
    const again = await open();
    expect([again.counts.completed, again.isDone(2)]).toEqual([1, false]);
    again.close();
  });

  it("know their own ids", () => {
    expect(lineOfRequest(requestId(ID, 12), ID)).toBe(12);
    for (const id of [requestId(`batch_${"cd".repeat(16)}`, 12), `${requestId(ID, 1)}x`, requestId(ID, 0), "x"])
      expect(lineOfRequest(id, ID)).toBeUndefined();
  });
});
