import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BatchHarness, batchLine } from "../../../test/support/batch/batch.cases.ts";
import { batchRequestId, lineOf, openBatchFiles } from "./batch-files.ts";
import { errorLine } from "./batch-output.ts";

let h: BatchHarness;

beforeEach(() => {
  h = new BatchHarness();
});
afterEach(() => h.remove());

const RECORD = { batch: "0123456789abcdef", place: "memory", queueName: "q", resultQueueName: "r" };
const answered = (customId: string | null, line: number): string =>
  errorLine(batchRequestId(RECORD.batch, line), customId, { code: "X", message: "" });

describe("openBatchFiles", () => {
  it("refuses bad lines with their numbers, before anything is made", async () => {
    h.write(batchLine("a"), "", "{", batchLine("b", { url: "v1" }), batchLine("a"));
    await expect(h.open()).rejects.toMatchObject({
      code: "BATCH_INVALID",
      message: expect.stringMatching(
        /in\.jsonl has 3 lines that cannot be sent; nothing was submitted.*\n {2}line 3: not valid JSON.*\n {2}line 4: url must be a path.*\n {2}line 5: custom_id "a" is also on line 1$/,
      ),
    });
    expect(existsSync(h.outputPath)).toBe(false);
    expect(existsSync(`${h.outputPath}.journal`)).toBe(false);
  });

  it("tells twenty of many bad lines", async () => {
    h.write(...Array.from({ length: 100 }, () => "x"));
    const error = (await h.open().catch((thrown: unknown) => thrown)) as Error;
    expect(error.message.split("\n")).toHaveLength(22);
    expect(error.message).toMatch(/and 80 more$/);
  });

  it("reads a file of many chunks, with every line's own text", async () => {
    const lines = Array.from({ length: 3000 }, (_, at) =>
      batchLine(`c${at}`, { body: { n: at, pad: "é".repeat(600) } }),
    );
    h.write(...lines);
    const files = await h.open();
    expect(files.total).toBe(3000);
    expect(files.input.readGood(2718)).toEqual({
      customId: "c2717",
      url: "/v1/chat/completions",
      body: JSON.stringify({ n: 2717, pad: "é".repeat(600) }),
    });
    files.close();
  });

  it("notices that the input changes while it is worked on, and between two runs", async () => {
    h.writeLines(3);
    const files = await h.open();
    files.journal.begin({ ...RECORD, inputSha256: files.inputSha256 });
    writeFileSync(h.inputPath, "short\n");
    expect(() => files.input.readGood(2)).toThrow(expect.objectContaining({ code: "BATCH_INPUT" }));
    files.close();
    h.writeLines(4);
    await expect(h.open()).rejects.toMatchObject({ code: "BATCH_CHANGED" });
  });

  it("counts what is answered; a torn last line is cut off, a whole one without an end gets it", async () => {
    h.writeLines(5);
    writeFileSync(h.outputPath, `${answered("c2", 2)}${answered("c4", 4)}{"id":"batch-01`);
    const torn = await h.open();
    expect(torn).toMatchObject({ total: 5, done: 2, failed: 2 });
    torn.close();
    expect(readFileSync(h.outputPath, "utf8")).toBe(answered("c2", 2) + answered("c4", 4));
    appendFileSync(h.outputPath, answered("c5", 5).trimEnd());
    const whole = await h.open();
    expect(whole.done).toBe(3);
    whole.output.append([answered("c1", 1)]);
    whole.close();
    expect([...h.answers().keys()]).toEqual(["c2", "c4", "c5", "c1"]);
    appendFileSync(h.outputPath, Buffer.alloc(5000));
    const zeros = await h.open();
    expect(zeros.done).toBe(4);
    zeros.close();
  });

  it("leaves files alone that are none of a batch, or of another one", async () => {
    h.writeLines(2);
    for (const [text, problem] of [
      ["my notes\nmore\n", /out\.jsonl:1 is not an answer to a line of a batch/],
      [answered("other", 1), /out\.jsonl:1 answers "other", but .*in\.jsonl has no such line/],
      [answered(null, 9), /answers "batch-0123456789abcdef-9", but/],
      [answered("c1", 1) + answered("c1", 1), /out\.jsonl:2 is a second answer to "c1"/],
    ] as const) {
      writeFileSync(h.outputPath, text);
      await expect(h.open()).rejects.toMatchObject({ code: "BATCH_OUTPUT", message: expect.stringMatching(problem) });
      expect(readFileSync(h.outputPath, "utf8")).toBe(text);
    }
  });

  it("refuses paths that cannot be what they are given for", async () => {
    h.writeLines(1);
    const open = (inputPath: string, outputPath: string) =>
      openBatchFiles({ inputPath, outputPath, skipInvalid: false, breathe: async () => {} });
    await expect(open(`${h.folder}/nowhere/in.jsonl`, h.outputPath)).rejects.toMatchObject({ code: "BATCH_INPUT" });
    await expect(open(h.folder, h.outputPath)).rejects.toMatchObject({ code: "BATCH_INPUT" });
    await expect(open(h.inputPath, h.inputPath)).rejects.toThrow("is the input of the batch");
    await expect(open(h.inputPath, `${h.folder}/nowhere/out.jsonl`)).rejects.toThrow(/\/nowhere\/out\.jsonl.*folder/);
    mkdirSync(`${h.outputPath}.d`);
    await expect(open(h.inputPath, `${h.outputPath}.d`)).rejects.toMatchObject({ code: "BATCH_OUTPUT" });
  });

  it("an empty batch is one without lines", async () => {
    writeFileSync(h.inputPath, "");
    const files = await h.open();
    expect(files.total).toBe(0);
    files.close();
  });
});

describe("BatchJournal", () => {
  it("lets one process work on a batch at a time", async () => {
    h.writeLines(1);
    const files = await h.open();
    await expect(h.open()).rejects.toMatchObject({
      code: "BATCH_RUNNING",
      message: `another process works on this batch and has locked ${h.outputPath}.journal`,
    });
    files.close();
    (await h.open()).close();
  });

  it("is kept from the first request on, and remembers how far it came", async () => {
    h.writeLines(5);
    const files = await h.open();
    const record = { ...RECORD, inputSha256: files.inputSha256 };
    files.journal.begin(record);
    files.journal.advance(3);
    files.journal.advance(2);
    files.close();
    const again = await h.open();
    expect([again.journal.record, again.journal.submitted]).toEqual([record, 3]);
    again.journal.remove();
    expect(existsSync(`${h.outputPath}.journal`)).toBe(false);
  });

  it("a file of another program in its place is left alone", async () => {
    h.writeLines(1);
    const other = new DatabaseSync(`${h.outputPath}.journal`);
    other.exec("CREATE TABLE treasure (gold TEXT)");
    other.close();
    await expect(h.open()).rejects.toMatchObject({ code: "BATCH_JOURNAL" });
    writeFileSync(`${h.outputPath}.journal`, "notes ".repeat(1000));
    await expect(h.open()).rejects.toMatchObject({ code: "BATCH_JOURNAL" });
    expect(readFileSync(`${h.outputPath}.journal`, "utf8")).toMatch(/^notes /);
  });
});

describe("request ids", () => {
  it("name batch and line", () => {
    expect(lineOf(batchRequestId("0123456789abcdef", 17))).toBe(17);
    expect(lineOf(batchRequestId("0123456789abcdef", 17), "0123456789abcdee")).toBeUndefined();
    for (const id of ["batch-x-1", "batch-0123456789abcdef-0", "batch-0123456789abcdef-1 ", "a"])
      expect(lineOf(id), id).toBeUndefined();
  });
});
