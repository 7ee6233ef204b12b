import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { grpcFrame } from "../../../../test/support/grpc-apis.ts";
import { frameMessage } from "../../../base/grpc/frames.ts";
import type { AnswerFormat } from "../../../base/inference/request.ts";
import { MAX_ANSWER_MESSAGE } from "./grpc-usage.ts";
import { MAX_OBSERVED_BODY } from "./json-usage.ts";
import { NO_USAGE, type Usage } from "./usage.ts";
import { usageReaderFor } from "./usage-reader.ts";

/** The usage at the end of an answer that came in these chunks. */
function usageOf(format: AnswerFormat, contentType: string, ...chunks: (string | Uint8Array)[]): Usage | undefined {
  const reader = usageReaderFor(format, contentType);
  for (const chunk of chunks) reader?.feed(Buffer.from(chunk));
  reader?.finish();
  return reader?.usage;
}

const USAGE = '{"usage":{"prompt_tokens":10,"completion_tokens":5}}';
const expected = { ...NO_USAGE, promptTokens: 10, completionTokens: 5, totalTokens: 15 };

describe("the reader for an answer", () => {
  it.each(["text/event-stream", "text/event-stream; charset=utf-8", "Text/Event-Stream"])(
    "follows the content type %s (E-71)",
    (type) => {
      expect(usageOf("http", type, `data: ${USAGE.slice(0, 20)}`, `${USAGE.slice(20)}\n\ndata: [DONE]\n\n`)).toEqual(
        expected,
      );
      const meta = '{"meta_info":{"prompt_tokens":10,"completion_tokens":5}}';
      expect(usageOf("sglang", type, `data: ${meta}\n\n`)).toEqual(expected);
    },
  );

  it.each(["application/json", "", "text/plain"])("takes %j for one document (E-72)", (type) => {
    expect(usageOf("http", type, USAGE.slice(0, 20), USAGE.slice(20))).toEqual(expected);
    expect(usageOf("sglang", type, '{"meta_info":{"prompt_tokens":10,"completion_tokens":5}}')).toEqual(expected);
    expect(usageOf("http", type, "no healthy upstream")).toBeUndefined();
    expect(usageOf("http", type)).toBeUndefined();
  });

  it("reads nothing where nothing is to be read", () => {
    expect(usageReaderFor("opaque", "application/json")).toBeUndefined();
  });

  it("holds a document by reference until its end, and at most MAX_OBSERVED_BODY of it", () => {
    const reader = usageReaderFor("http", "application/json")!;
    expect(reader.holding).toBe(true);
    reader.feed(Buffer.from(USAGE));
    reader.feed(Buffer.alloc(MAX_OBSERVED_BODY - USAGE.length, " "));
    expect(reader.holding).toBe(true);
    reader.finish();
    expect([reader.holding, reader.usage]).toEqual([false, expected]);

    const large = usageReaderFor("http", "application/json")!;
    large.feed(Buffer.from(USAGE));
    large.feed(Buffer.alloc(MAX_OBSERVED_BODY - USAGE.length + 1, " "));
    expect(large.holding).toBe(false);
    large.feed(Buffer.from(USAGE));
    large.finish();
    expect(large.usage).toBeUndefined();
  });

  it("forgets what it holds when it is told to", () => {
    const reader = usageReaderFor("http", "")!;
    reader.feed(Buffer.from(USAGE));
    reader.drop();
    reader.finish();
    expect([reader.holding, reader.usage]).toEqual([false, undefined]);
  });
});

describe("usage of vLLM's gRPC answers", () => {
  const chunk = (counts: object) => grpcFrame("GenerateResponse", { chunk: { token_ids: [1, 2], ...counts } });
  const complete = (counts: object) =>
    grpcFrame("GenerateResponse", { complete: { output_ids: [1, 2], finish_reason: "stop", ...counts } });

  it("E-72, E-110: merges the counts of a stream", () => {
    const first = chunk({ prompt_tokens: 10, completion_tokens: 1, cached_tokens: 4 });
    const last = complete({ prompt_tokens: 10, completion_tokens: 5, cached_tokens: 4 });
    expect(usageOf("vllm-generate", "application/grpc", first, chunk({}), last)).toEqual({
      ...expected,
      cachedTokens: 4,
    });
    expect(usageOf("vllm-generate", "application/grpc", first, chunk({ completion_tokens: 2 }))).toMatchObject({
      promptTokens: 10,
      completionTokens: 2,
      totalTokens: 12,
    });
  });

  it("E-72: reads an embedding's", () => {
    const answer = grpcFrame("EmbedResponse", { embedding: [0.5, 0.25], prompt_tokens: 7, embedding_dim: 2 });
    expect(usageOf("vllm-embed", "", answer)).toEqual({ ...NO_USAGE, promptTokens: 7, totalTokens: 7 });
    expect(usageOf("vllm-embed", "", grpcFrame("EmbedResponse", { embedding_dim: 2 }))).toBeUndefined();
  });

  it("finds none where there is none, and passes over what it can't read", () => {
    const good = complete({ prompt_tokens: 10, completion_tokens: 5 });
    expect(usageOf("vllm-generate", "", chunk({}))).toBeUndefined();
    expect(usageOf("vllm-generate", "", good.subarray(0, -1))).toBeUndefined();
    const compressed = Buffer.concat([Buffer.of(1), good.subarray(1)]);
    expect(usageOf("vllm-generate", "", compressed)).toBeUndefined();
    expect(usageOf("vllm-generate", "", compressed, frameMessage(Buffer.of(0x12, 0x7f)), good)).toMatchObject(expected);
    // An error page of the proxy's, then bytes whose frames can't be found any more.
    expect(usageOf("vllm-generate", "text/plain", "no healthy upstream", good)).toBeUndefined();
  });

  it("gives up at a message longer than MAX_ANSWER_MESSAGE, keeping what it knows and nothing of the message", () => {
    const more = complete({ prompt_tokens: 20, completion_tokens: 6 });
    for (const [length, promptTokens] of [
      [MAX_ANSWER_MESSAGE, 20],
      [MAX_ANSWER_MESSAGE + 1, 10],
    ] as const) {
      const reader = usageReaderFor("vllm-generate", "application/grpc")!;
      reader.feed(chunk({ prompt_tokens: 10, completion_tokens: 5 }));
      const long = Buffer.alloc(5 + length);
      long.writeUInt32BE(length, 1);
      for (let at = 0; at < long.length; at += 100_000) reader.feed(long.subarray(at, at + 100_000));
      reader.feed(more);
      reader.finish();
      expect([reader.usage?.promptTokens, reader.holding]).toEqual([promptTokens, false]);
    }
  });

  it("is the same for every way to cut the answer, and what protobufjs wrote", () => {
    const counts = fc.record({ prompt_tokens: fc.nat(), completion_tokens: fc.nat(), cached_tokens: fc.nat() });
    const messages = fc.array(
      fc.tuple(fc.constantFrom(chunk, complete), counts).map(([make, all]) => ({ frame: make(all), all })),
      { minLength: 1, maxLength: 6 },
    );
    const last = (values: number[]) => values.filter((value) => value > 0).at(-1) ?? Number.NaN;
    fc.assert(
      fc.property(messages, fc.array(fc.nat(), { maxLength: 10 }), (list, cuts) => {
        const bytes = Buffer.concat(list.map(({ frame }) => frame));
        const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
        const pieces = at.slice(1).map((end, i) => bytes.subarray(at[i], end));
        const whole = usageOf("vllm-generate", "", bytes);
        expect(usageOf("vllm-generate", "", ...pieces)).toEqual(whole);
        expect(usageOf("vllm-generate", "", ...[...bytes].map((byte) => Uint8Array.of(byte)))).toEqual(whole);
        const said = list.filter(({ all }) => all.prompt_tokens > 0 || all.completion_tokens > 0);
        expect(whole?.promptTokens ?? Number.NaN).toEqual(last(said.map(({ all }) => all.prompt_tokens)));
        expect(whole?.completionTokens ?? Number.NaN).toEqual(last(said.map(({ all }) => all.completion_tokens)));
        expect(whole?.cachedTokens ?? Number.NaN).toEqual(last(said.map(({ all }) => all.cached_tokens)));
      }),
      { numRuns: 200 },
    );
  });
});

describe("usage of answers that gRPC messages wrap", () => {
  const wrap = (text: string) => grpcFrame("HttpBody", { content_type: "application/json", data: Buffer.from(text) });

  it("reads documents, one per message", () => {
    expect(usageOf("http-body", "application/grpc", wrap(USAGE))).toEqual(expected);
    const frames = Buffer.concat([wrap('{"choices":[]}'), wrap(USAGE)]);
    expect(usageOf("http-body", "", frames.subarray(0, 50), frames.subarray(50))).toEqual(expected);
    expect(usageOf("http-body", "", wrap("text"), wrap(""), grpcFrame("HttpBody", {}))).toBeUndefined();
  });

  it.each(["data: ", "event: message\ndata: ", ": ping\ndata: "])(
    "reads an event stream that begins with %j, cut anywhere",
    (start) => {
      const text = `${start}{"choices":[]}\n\ndata: ${USAGE}`;
      const frames = [text.slice(0, 12), text.slice(12, 60), text.slice(60)].map(wrap);
      expect(usageOf("http-body", "", ...frames)).toEqual(expected);
    },
  );
});

describe("any reader", () => {
  it("never throws, whatever the bytes", () => {
    const formats = ["http", "sglang", "vllm-generate", "vllm-embed", "http-body"] as const;
    const chunk = fc.oneof(
      fc.uint8Array({ maxLength: 30 }),
      fc.uint8Array({ maxLength: 30 }).map((message) => new Uint8Array(frameMessage(message))),
    );
    fc.assert(
      fc.property(
        fc.constantFrom(...formats),
        fc.constantFrom("text/event-stream", ""),
        fc.array(chunk),
        (format, type, chunks) => {
          const usage = usageOf(format, type, ...chunks);
          for (const count of Object.values(usage ?? {})) expect(Number.isNaN(count) || count >= 0).toBe(true);
        },
      ),
      { numRuns: 2000 },
    );
  });
});
