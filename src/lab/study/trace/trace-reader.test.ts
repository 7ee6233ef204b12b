import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readTrace, type TraceOptions } from "./trace-reader.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-trace-"));
afterAll(() => rmSync(folder, { recursive: true }));

const WHOLE: TraceOptions = {
  window: { from: 0, to: Number.POSITIVE_INFINITY },
  speed: 1,
  contextLength: 10_000,
};
const AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens";
const BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type";

let files = 0;
/** Reads the text as a file. */
function read(text: string | Uint8Array, options: Partial<TraceOptions> = {}) {
  const file = join(folder, `${files++}.txt`);
  writeFileSync(file, text);
  return readTrace(file, { ...WHOLE, ...options });
}

/** A row of Mooncake's with as many blocks as its length needs. */
function mooncake(timestamp: unknown, hashIds: readonly unknown[] = [1], more: object = {}): string {
  return JSON.stringify({
    timestamp,
    input_length: hashIds.length * 512 - 12,
    output_length: 7,
    hash_ids: hashIds,
    ...more,
  });
}

/** The arrivals and lengths. */
const lengths = ({ requests }: Awaited<ReturnType<typeof read>>) =>
  requests.map(({ at, promptTokens, outputTokens }) => [at, promptTokens, outputTokens]);
const unusable = ({ summary }: Awaited<ReturnType<typeof read>>) =>
  summary.unusable.map(({ why, count, line }) => [why, count, line]);

describe("readTrace", () => {
  it("reads Mooncake's JSON lines, and numbers the blocks by their first use", async () => {
    const trace = await read(`${mooncake(0, [70, 71])}\n${mooncake(250, [70, 9, 71])}\n`);
    expect(lengths(trace)).toEqual([
      [0, 1012, 7],
      [250, 1524, 7],
    ]);
    expect(trace.requests.map(({ blocks }) => [...blocks!])).toEqual([
      [0, 1],
      [0, 2, 1],
    ]);
    // Block 70 repeats whole, and 500 tokens of block 71.
    expect(trace.summary).toMatchObject({
      format: "Mooncake",
      rows: 2,
      requests: 2,
      unusable: [],
      repeated: 1012 / 2536,
    });
  });

  it("reads the Azure CSVs of both years", async () => {
    const trace = await read(
      `${AZURE}\r\n2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319600,3180,8\r\n`,
    );
    expect(lengths(trace)).toEqual([
      [0, 4808, 10],
      [52, 3180, 8],
    ]);
    expect(trace.requests.every(({ blocks }) => blocks === undefined)).toBe(true);
    expect(trace.summary).toMatchObject({ format: "Azure LLM inference", rows: 2, repeated: undefined });
    const later = await read(`${AZURE}\n2024-05-10 23:59:59.500000+00:00,1,2\n2024-05-11 01:00:00.250000+01:00,3,4\n`);
    expect(lengths(later)).toEqual([
      [0, 1, 2],
      [750, 3, 4],
    ]);
  });

  it("reads BurstGPT's CSVs with and without sessions, in any order of columns", async () => {
    const trace = await read(`${BURST}\n5,ChatGPT,472,18,490,Conversation log\n45.5,GPT-4,1087,230,1317,API log\n`);
    expect(lengths(trace)).toEqual([
      [0, 472, 18],
      [40_500, 1087, 230],
    ]);
    const other = await read(
      'Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,"s",2.5,"GPT-4",3.0,4,7,x\n',
    );
    expect(lengths(other)).toEqual([[0, 3, 4]]);
    expect(other.summary.format).toBe("BurstGPT");
  });

  it.each([
    ["json", mooncake(0), "{"],
    ["json", mooncake(0), "[1]"],
    ["json", mooncake(0), "null"],
    ["time", mooncake(0), mooncake("1")],
    ["time", mooncake(0), mooncake(-1)],
    ["lengths", mooncake(0), mooncake(1, [1], { input_length: 1.5 })],
    ["lengths", mooncake(0), mooncake(1, [1], { output_length: undefined })],
    ["lengths", mooncake(0), mooncake(1, [1], { output_length: -1 })],
    ["hashes", mooncake(0), mooncake(1, [1], { hash_ids: undefined })],
    ["hashes", mooncake(0), mooncake(1, ["1"])],
    ["blocks", mooncake(0), mooncake(1, [1], { input_length: 513 })],
    ["blocks", mooncake(0), mooncake(1, [1, 2], { input_length: 512 })],
    ["timeBack", mooncake(10), mooncake(9.5)],
    ["noPrompt", mooncake(0), mooncake(1, [], { input_length: 0 })],
    ["noAnswer", mooncake(0), mooncake(1, [1], { output_length: 0 })],
    ["contextLength", mooncake(0), mooncake(1, [1], { output_length: 9501 })],
    ["columns", `${BURST}\n1,a,1,1,2,x`, "1,a,1,1,2"],
    ["columns", `${BURST}\n1,a,1,1,2,x`, "2,a,1,1,2,x,y"],
    ["time", `${BURST}\n1,a,1,1,2,x`, "1e3,a,1,1,2,x"],
    ["lengths", `${BURST}\n1,a,1,1,2,x`, "2,a,1,,2,x"],
    ["noAnswer", `${BURST}\n1,a,1,1,2,x`, "2,a,1,0,1,x"],
    ["time", `${AZURE}\n2023-11-16 18:17:03,1,1`, "2023-13-16 18:17:03,1,1"],
    ["time", `${AZURE}\n2023-11-16 18:17:03,1,1`, "yesterday,1,1"],
    ["lineLength", mooncake(0), " ".repeat(1_100_000)],
  ])("counts a row without use: %s", async (why, good, bad) => {
    const start = good.split("\n").length;
    const trace = await read(`${good}\n${bad}\n\n${bad}\n`);
    expect(unusable(trace)).toEqual([[why, 2, start + 1]]);
    expect(trace.summary).toMatchObject({ rows: 3, requests: 1 });
  });

  it("counts a row that is not a text", async () => {
    const trace = await read(Buffer.concat([Buffer.from(`${mooncake(0)}\n`), Buffer.from([0xff, 0x0a])]));
    expect(unusable(trace)).toEqual([["encoding", 1, 2]]);
  });

  it("plays a prompt with its answer that just fits the context", async () => {
    expect((await read(mooncake(0, [1], { output_length: 9500 }))).requests.length).toBe(1);
  });

  it("lists the most frequent reason first", async () => {
    const trace = await read([mooncake(5), "{", mooncake(1), mooncake(2)].join("\n"));
    expect(unusable(trace)).toEqual([
      ["timeBack", 2, 3],
      ["json", 1, 2],
    ]);
  });

  it("plays a window from its start, and reads no row after its end", async () => {
    const rows = [100, 1100, 2099, 2100, 3100].map((at) => mooncake(at)).join("\n");
    const trace = await read(`${rows}\n{`, { window: { from: 1000, to: 2000 } });
    expect(lengths(trace).map(([at]) => at)).toEqual([0, 999]);
    expect(trace.summary).toMatchObject({ rows: 3, before: 1, requests: 2, unusable: [], stopped: "window" });
  });

  it("makes time pass faster or slower", async () => {
    const rows = `${mooncake(0)}\n${mooncake(1000)}`;
    expect(lengths(await read(rows, { speed: 4 }))[1]![0]).toBe(250);
    expect(lengths(await read(rows, { speed: 0.5 }))[1]![0]).toBe(2000);
    // The window is in recorded time.
    const part = await read(rows, { speed: 4, window: { from: 500, to: 2000 } });
    expect(lengths(part)[0]![0]).toBe(125);
  });

  it("plays a day at most", async () => {
    const day = 24 * 3_600_000;
    const rows = [0, day - 1, day].map((at) => mooncake(at)).join("\n");
    expect((await read(rows)).summary).toMatchObject({ requests: 2, stopped: "span" });
    expect((await read(rows, { speed: 2 })).summary).toMatchObject({ requests: 3, stopped: undefined });
  });

  it("keeps no more requests and hash ids than it may", async () => {
    const rows = [0, 1, 2, 3].map((at) => mooncake(at, [1, at])).join("\n");
    const few = await read(rows, { limits: { requests: 3, blocks: 100 } });
    expect(few.summary).toMatchObject({ requests: 3, rows: 3, stopped: "requests" });
    const short = await read(rows, { limits: { requests: 100, blocks: 5 } });
    expect(short.summary).toMatchObject({ requests: 2, rows: 2, stopped: "blocks" });
  });

  it.each([
    ["no known format", "hello\n", /is not a known trace: line 1 is "hello"\. There are Mooncake's/],
    ["another CSV", "\n\na,b,c\n1,2,3\n", /line 3 is "a,b,c"/],
    ["binary", new Uint8Array([0xff, 0xfe, 0x0a]), /line 1 is not text, or far too long/],
    [
      "rows without use",
      `${BURST}\nx,a,1,1,2,x\n1,a,0,0,0,x\n`,
      /has no row to play; the first is line 2: without a time$/,
    ],
    ["no rows", `${AZURE}\n`, /has no row to play: the file has no rows$/],
    ["an empty file", "", /has no row to play: the file has no rows$/],
  ])("refuses a file with %s", async (_, text, told) => {
    await expect(read(text)).rejects.toMatchObject({ code: "TRACE_INPUT", message: expect.stringMatching(told) });
  });

  it("refuses a window without rows, a file that does not exist, and a folder", async () => {
    const window = { from: 5000, to: 6000 };
    const rows = `${mooncake(0)}\n${mooncake(7000)}`;
    await expect(read(rows, { window })).rejects.toThrow("has no row to play: no row is in the window");
    await expect(readTrace(join(folder, "none"), WHOLE)).rejects.toMatchObject({ code: "DOCUMENT_MISSING" });
    await expect(readTrace(folder, WHOLE)).rejects.toMatchObject({ code: "DOCUMENT_UNREADABLE" });
  });
});
