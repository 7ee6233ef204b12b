import { describe, expect, it } from "vitest";
import { MAX_USAGE_BYTES, usageFromJson } from "./json-usage.ts";
import { LINE_END, MAX_LINE, SseUsageReader } from "./sse-usage.ts";
import { mergeUsage, NO_USAGE as NOTHING, withTotal } from "./usage.ts";

const json = (text: string) => usageFromJson(Buffer.from(text));

function sse(...chunks: string[]): SseUsageReader {
  const reader = new SseUsageReader();
  for (const chunk of chunks) reader.feed(Buffer.from(chunk));
  return reader;
}

describe("usage of a complete JSON answer", () => {
  it.each([
    [
      "OpenAI",
      '{"id":"c","choices":[{"text":"\\"usage\\":1"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":8}}}',
      { promptTokens: 10, completionTokens: 5, totalTokens: 15, cachedTokens: 8 },
    ],
    [
      "the misspelt details name",
      '{"usage":{"prompt_tokens":10,"prompt_token_details":{"cached_tokens":3}}}',
      { promptTokens: 10, cachedTokens: 3 },
    ],
    ["null details", '{"usage":{"prompt_tokens":10,"prompt_tokens_details":null}}', { promptTokens: 10 }],
    [
      "numbers as strings",
      '{"usage":{"prompt_tokens":"10","completion_tokens":"5"}}',
      { promptTokens: 10, completionTokens: 5 },
    ],
    [
      "Responses API, direct and wrapped names (E-72)",
      '{"type":"response.completed","response":{"usage":{"input_tokens":4,"output_tokens":2,"total_tokens":6,"input_tokens_details":{"cached_tokens":1}}}}',
      { promptTokens: 4, completionTokens: 2, totalTokens: 6, cachedTokens: 1 },
    ],
    [
      "Anthropic (E-72)",
      '{"type":"message","usage":{"input_tokens":4,"output_tokens":2,"cache_read_input_tokens":3}}',
      { promptTokens: 4, completionTokens: 2, cachedTokens: 3 },
    ],
    [
      "embeddings (E-72)",
      '{"object":"list","data":[{"embedding":[0.5]}],"usage":{"prompt_tokens":4,"total_tokens":4}}',
      { promptTokens: 4, totalTokens: 4 },
    ],
    [
      "conversations (E-72)",
      '{"object":"conversation","usage":{"input_tokens":"4","output_tokens":0,"total_tokens":4}}',
      { promptTokens: 4, completionTokens: 0, totalTokens: 4 },
    ],
    [
      "SGLang (E-72)",
      '{"text":"a","meta_info":{"id":"x","finish_reason":null,"prompt_tokens":4,"completion_tokens":2,"cached_tokens":1}}',
      { promptTokens: 4, completionTokens: 2, cachedTokens: 1 },
    ],
    ["usage before SGLang's", '{"meta_info":{"prompt_tokens":1},"usage":{"prompt_tokens":2}}', { promptTokens: 2 }],
  ])("reads %s", (_name, text, expected) => {
    expect(json(text)).toEqual({ ...NOTHING, ...expected });
  });

  it.each([
    "",
    "upstream connect error",
    "[]",
    "null",
    "{}",
    '{"usage":null}',
    '{"usage":{}}',
    '{"usage":[1]}',
    '{"usage":"many"}',
    '{"usage":{"prompt_tokens":-1,"completion_tokens":"x","total_tokens":true,"prompt_tokens_details":7}}',
    '{"response":"text"}',
    '{"response":{"usage":null}}',
    '{"usage":{"prompt_tokens":10}',
    '{"meta_info":null}',
    '{"meta_info":[{"prompt_tokens":1}]}',
    '{"meta_info":{"cached_tokens":1,"prompt_tokens":"4","completion_tokens":-2}}',
  ])("finds none in %j", (text) => {
    expect(json(text)).toBeUndefined();
  });

  it("reads SGLang's counts beside log probabilities of any size (E-72)", () => {
    const logprobs = JSON.stringify(Array.from({ length: 10_000 }, (_, i) => [-0.5, i, null]));
    const body = `{"meta_info":{"prompt_tokens":4,"input_token_logprobs":${logprobs},"completion_tokens":2}}`;
    expect(json(body)).toEqual({ ...NOTHING, promptTokens: 4, completionTokens: 2 });
  });

  it("does not decode an absurdly large usage", () => {
    const padded = (bytes: number) => `{"usage":{"prompt_tokens":1,"x":"${"x".repeat(bytes)}"}}`;
    expect(json(padded(MAX_USAGE_BYTES - 100))?.promptTokens).toBe(1);
    expect(json(padded(MAX_USAGE_BYTES))).toBeUndefined();
  });
});

describe("usage of a stream", () => {
  const TOKEN = 'data: {"choices":[{"delta":{"content":"a"}}],"usage":null}\n\n';
  const USAGE = 'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}\n\n';
  const expected = { ...NOTHING, promptTokens: 10, completionTokens: 5, totalTokens: 15 };

  it("E-71: finds usage in another chunk than [DONE]", () => {
    const reader = sse(TOKEN, TOKEN, USAGE);
    expect(reader.usage).toEqual(expected);
    expect(reader.done).toBe(false);
    reader.feed(Buffer.from("data: [DONE]\n\n"));
    expect(reader.usage).toEqual(expected);
    expect(reader.done).toBe(true);
  });

  it("E-71: finds usage in a line that is split over chunks", () => {
    const middle = USAGE.indexOf("usage") + 2;
    const reader = sse(TOKEN + USAGE.slice(0, middle), USAGE.slice(middle), "data: [DO", "NE]\n\n");
    expect(reader.usage).toEqual(expected);
    expect(reader.done).toBe(true);
  });

  it("reads events without line ends between them, wherever they are cut (epp-protocol appendix B)", () => {
    const stream = `data: {}${USAGE.trimEnd()}data: {"usage":{"completion_tokens":6}}data: [DONE]`;
    for (let cut = 0; cut <= stream.length; cut++) {
      const reader = sse(stream.slice(0, cut), stream.slice(cut));
      reader.finish();
      expect(reader.usage, `cut at ${cut}`).toEqual({ ...expected, completionTokens: 6 });
    }
  });

  it("takes what looks like another event for text, where it is some", () => {
    const text = JSON.stringify({ content: '}data: {"usage":{"prompt_tokens":9}}' });
    expect(sse(`data: ${text}\n`).usage).toBeUndefined();
    expect(sse(`data: ${text.slice(0, -1)},"usage":{"prompt_tokens":1}}\n`).usage?.promptTokens).toBe(1);
  });

  it("accepts CR LF and no space after the colon, and passes over what is no data line", () => {
    expect(sse(USAGE.replace("data: ", "data:").replaceAll("\n", "\r\n")).usage).toEqual(expected);
    expect(sse(USAGE.replace("data: ", ": comment ")).usage).toBeUndefined();
    expect(sse(USAGE.replace("data: ", "event: ")).usage).toBeUndefined();
    expect(sse("data:[DONE]\r\n\r\n").done).toBe(true);
  });

  it("finds no usage where there is none, or none that can be read", () => {
    expect(sse(TOKEN, TOKEN).usage).toBeUndefined();
    expect(sse('data: {"usage":{"prompt_tokens":1}\n\n', 'data: "usage"\n\n').usage).toBeUndefined();
    expect(sse(TOKEN, TOKEN, 'data: {"usage":{', "\n\n", USAGE).usage).toEqual(expected);
  });

  it("is not misled by the word in generated text", () => {
    const text = JSON.stringify({ choices: [{ delta: { content: '{"usage":{"prompt_tokens":99}}' } }] });
    expect(sse(`data: ${text}\n\n`).usage).toBeUndefined();
    expect(sse(`data: ${text}\n\n${USAGE}`).usage).toEqual(expected);
  });

  it("merges per field, later values first (E-72: Anthropic delivers usage in two events)", () => {
    const reader = sse(
      'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":7,"output_tokens":1}}}\n\n',
      'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":20}}\n\n',
    );
    expect(reader.usage).toEqual({ ...NOTHING, promptTokens: 7, completionTokens: 20, totalTokens: 27 });
    expect(mergeUsage(undefined, expected)).toEqual(expected);
  });

  it("adds up a total only where both parts are known and none is given", () => {
    const parts = { ...NOTHING, promptTokens: 7, completionTokens: 20 };
    expect(withTotal(parts).totalTokens).toBe(27);
    expect(withTotal({ ...parts, totalTokens: 30 }).totalTokens).toBe(30);
    expect(withTotal({ ...NOTHING, promptTokens: 7 }).totalTokens).toBeNaN();
  });

  it("reads the Responses API's last event (E-72)", () => {
    const reader = sse(
      'event: response.created\ndata: {"type":"response.created","response":{"usage":null}}\n\n',
      'event: response.completed\ndata: {"type":"response.completed","response":{"usage":{"input_tokens":31,"output_tokens":4,"total_tokens":35}}}\n\n',
    );
    expect(reader.usage).toEqual({ ...NOTHING, promptTokens: 31, completionTokens: 4, totalTokens: 35 });
  });

  it("reads SGLang's counts, which grow from event to event (E-72)", () => {
    const event = (tokens: number, reason: string) =>
      `data: {"text":"a","meta_info":{"prompt_tokens":4,"completion_tokens":${tokens},"finish_reason":${reason}}}\n\n`;
    const reader = new SseUsageReader("meta_info");
    reader.feed(Buffer.from(event(1, "null") + event(2, "null").slice(0, 30)));
    expect(reader.usage?.completionTokens).toBe(1);
    reader.feed(Buffer.from(`${event(2, "null").slice(30)}${event(3, '{"type":"stop"}')}data: [DONE]\n\n`));
    expect(reader.usage).toEqual({ ...NOTHING, promptTokens: 4, completionTokens: 3, totalTokens: 7 });
    expect(reader.done).toBe(true);
  });

  it("reads a last line without an end once the stream is over", () => {
    const reader = sse(TOKEN, USAGE.trimEnd());
    expect(reader.usage).toBeUndefined();
    reader.finish();
    expect(reader.usage).toEqual(expected);
  });

  it("skips a line that is too long, in one piece or in many, and reads on behind it", () => {
    const line = (length: number) => {
      const [head, tail] = ['data: {"usage":{"prompt_tokens":1},"x":"', '"}'];
      return `${head}${"x".repeat(length - head.length - tail.length)}${tail}`;
    };
    const inPieces = (text: string) => sse(...(text.match(/.{1,1000}|\n/g) ?? []));
    for (const feed of [sse, inPieces]) {
      expect(feed(`${line(MAX_LINE)}\n\n`).usage?.promptTokens).toBe(1);
      expect(feed(`${line(MAX_LINE + 1)}\n\n`).usage).toBeUndefined();
      expect(feed(`${line(MAX_LINE + 1)}\n\n${USAGE}data: [DONE]\n\n`).usage).toEqual(expected);
      expect(feed(`data: [DONE]\n\n${line(10 * MAX_LINE)}\n\n`).done).toBe(false);
    }
  });

  it("reads a usage at the end of a line that is too long, in one piece or in many", () => {
    const tokens = '"usage":{"input_tokens":4,"output_tokens":2}';
    const line = (output: string, after: string) =>
      `data: {"type":"response.completed","response":{"output":${JSON.stringify(output)},${tokens},"user":${JSON.stringify(after)}}}\n\n`;
    const long = `${'{"usage":{"input_tokens":9}} '.repeat(MAX_LINE / 16)}\\`;
    const cut = (text: string, size: number) => sse(...(text.match(new RegExp(`[^]{1,${size}}`, "g")) ?? []));
    for (const size of [3, 1000, LINE_END, LINE_END + 1, 70_000, 1_000_000]) {
      expect(cut(line(long, "me"), size).usage).toEqual({
        ...NOTHING,
        promptTokens: 4,
        completionTokens: 2,
        totalTokens: 6,
      });
      // Text behind the usage that looks like one is none; and a usage that is too far from the end is not found.
      expect(cut(line(long, '"usage":{"input_tokens":9}'), size).usage?.promptTokens).toBe(4);
      expect(cut(line(long, "x".repeat(LINE_END)), size).usage).toBeUndefined();
      expect(cut(line(long, "me").replace("data:", "text:"), size).usage).toBeUndefined();
      expect(cut(`${line(long, "me")}${USAGE}data: [DONE]\n\n`, size).usage).toEqual(expected);
    }
  });

  it("is not misled by other members of that name in such a line", () => {
    const schema = '"tools":[{"properties":{"usage":{"type":"object"}}}]';
    const line = `data: {"response":{"output":"${"x".repeat(MAX_LINE)}","usage":{"input_tokens":4},${schema}}}\n`;
    expect(sse(line).usage?.promptTokens).toBe(4);
  });

  it("keeps its own copy of an unfinished line", () => {
    const chunk = Buffer.from(USAGE.slice(0, 60));
    const reader = new SseUsageReader();
    reader.feed(chunk);
    chunk.fill(0);
    reader.feed(Buffer.from(USAGE.slice(60)));
    expect(reader.usage).toEqual(expected);
  });
});
