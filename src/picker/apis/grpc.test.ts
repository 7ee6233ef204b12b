import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { grpcFrame } from "../../../test/support/grpc-apis.ts";
import { frameMessage } from "../../base/grpc/frames.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { ParsedBody } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { MAX_PIECES, vertexChat, vertexPredict, vllmGrpcEmbed, vllmGrpcGenerate } from "./grpc.ts";

function parsed(parser: BodyParser, body: Uint8Array): ParsedBody {
  const result = parser.parse(body, "");
  if (result instanceof Rejection) throw new Error(result.text);
  return result;
}

const refused = (parser: BodyParser, body: Uint8Array) => (parser.parse(body, "") as Rejection).text;
const prompt = (parser: BodyParser, body: Buffer) =>
  parsed(parser, body).prompts.map((ranges) => ranges.map(({ start, end }) => body.toString("latin1", start, end)));

describe("vLLM's gRPC API (epp-protocol appendix C)", () => {
  it("E-110: reads a text, its cap and whether it streams; there is no model, and none to insert", () => {
    const body = grpcFrame("GenerateRequest", {
      request_id: "r",
      text: "tell me",
      sampling_params: { max_tokens: 7, n: 1 },
      stream: true,
    });
    expect(parsed(vllmGrpcGenerate, body)).toMatchObject({
      model: "",
      modelRange: undefined,
      modelInsertAt: -1,
      answerFormat: "vllm-generate",
      streaming: true,
      maxTokens: 7,
      cacheSalt: "",
    });
    expect(prompt(vllmGrpcGenerate, body)).toEqual([["tell me"]]);
    expect(parsed(vllmGrpcGenerate, grpcFrame("GenerateRequest", { text: "" }))).toMatchObject({
      streaming: false,
      maxTokens: Number.NaN,
    });
  });

  it("E-110: reads token ids as their bytes, the hashes of pictures behind them", () => {
    const body = grpcFrame("GenerateRequest", {
      tokenized: { original_text: "not hashed", input_ids: [1, 2, 300] },
      mm_inputs: { mm_placeholders: [{ offset: 1, length: 1 }], mm_hashes: ["abc", "def"] },
    });
    expect(prompt(vllmGrpcGenerate, body)).toEqual([["\x01\x02\xac\x02", "abc", "def"]]);
    const embed = grpcFrame("EmbedRequest", { request_id: "r", tokenized: { input_ids: [7, 8] } });
    expect(prompt(vllmGrpcEmbed, embed)).toEqual([["\x07\x08"]]);
    expect(parsed(vllmGrpcEmbed, embed)).toMatchObject({ answerFormat: "vllm-embed", streaming: false });
  });

  it("reads ids that are not packed as one range, in any number", () => {
    const ids = Array.from({ length: 10_000 }, (_, i) => i % 100);
    const body = grpcFrame("UnpackedRequest", { tokenized: { input_ids: ids } });
    expect(prompt(vllmGrpcGenerate, body)).toEqual([[ids.map((id) => `\x10${String.fromCharCode(id)}`).join("")]]);
  });

  it("tells at most MAX_PIECES hashes apart, losing no byte", () => {
    const hashes = Array.from({ length: 1000 }, (_, i) => `hash-${i}`);
    const body = grpcFrame("GenerateRequest", { text: "t", mm_inputs: { mm_hashes: hashes } });
    const [pieces] = prompt(vllmGrpcGenerate, body);
    expect(pieces).toHaveLength(1 + MAX_PIECES);
    expect(pieces?.at(-1)).toContain("hash-999");
  });

  it("takes the last of text and token ids, as a oneof has it", () => {
    const [text, tokens] = [
      grpcFrame("GenerateRequest", { text: "t" }),
      grpcFrame("GenerateRequest", { tokenized: { input_ids: [65] } }),
    ].map((frame) => frame.subarray(5)) as [Buffer, Buffer];
    expect(prompt(vllmGrpcGenerate, frameMessage(Buffer.concat([text, tokens])))).toEqual([["A"]]);
    expect(prompt(vllmGrpcGenerate, frameMessage(Buffer.concat([tokens, text])))).toEqual([["t"]]);
  });

  const good = grpcFrame("GenerateRequest", { text: "hello" });
  it.each([
    ["a text", Buffer.from("not a frame")],
    ["nothing", Buffer.alloc(0)],
    ["a cut prefix", good.subarray(0, 4)],
    ["a cut message", good.subarray(0, -1)],
    ["bytes behind the message", Buffer.concat([good, Buffer.of(0)])],
    ["a field behind the message", Buffer.concat([good, Buffer.of(0x28, 1)])],
    ["two messages", Buffer.concat([good, good])],
    ["a compressed message", Buffer.concat([Buffer.of(1), good.subarray(1)])],
    ["a broken message", frameMessage(Buffer.of(0x1a, 0x7f))],
  ])("E-110: answers 400 to %s", (_name, body) => {
    for (const [parser, method] of [
      [vllmGrpcGenerate, "Generate"],
      [vllmGrpcEmbed, "Embed"],
    ] as const) {
      expect(refused(parser, body)).toBe(
        `inference error: BadRequest - parsing gRPC payload for ${method}: not able to parse payload`,
      );
    }
  });

  it("E-110: answers 400 to a message without input", () => {
    const empty = frameMessage(Buffer.alloc(0));
    expect(refused(vllmGrpcGenerate, empty)).toContain(
      "parsing gRPC payload for Generate: not supported request inputType",
    );
    expect(refused(vllmGrpcEmbed, empty)).toContain(
      "parsing gRPC payload for Embed: missing tokenized input in EmbedRequest",
    );
  });
});

describe("Vertex AI's gRPC API", () => {
  const wrap = (json: string | Uint8Array) =>
    grpcFrame("PredictRequest", {
      endpoint: "e".repeat(200),
      http_body: { content_type: "application/json", data: Buffer.from(json) },
    });

  it("reads the chat inside, at its place in the whole body, and leaves its model's name", () => {
    const body = wrap('{"model":"m","messages":[{"role":"user"}],"stream":true,"max_tokens":7}');
    expect(parsed(vertexChat, body)).toMatchObject({
      model: "m",
      modelRange: undefined,
      modelInsertAt: -1,
      answerFormat: "http-body",
      streaming: true,
      maxTokens: 7,
    });
    expect(prompt(vertexChat, body)).toEqual([['[{"role":"user"}]']]);
  });

  it("reads of a raw prediction a response, else anything with a model", () => {
    expect(prompt(vertexPredict, wrap('{"model":"m","input":"i","instructions":"s"}'))).toEqual([['"s"', '"i"']]);
    expect(prompt(vertexPredict, wrap('{"model":"m","messages":[1]}'))).toEqual([["[1]"]]);
    expect(parsed(vertexPredict, wrap('{"model":"m","x":1}'))).toMatchObject({ model: "m", answerFormat: "http-body" });
  });

  it.each([
    ["no JSON", wrap("instances")],
    ["JSON of no known API", wrap('{"instances":[1]}')],
    ["no body inside", grpcFrame("PredictRequest", { endpoint: "e" })],
    ["an empty body inside", grpcFrame("PredictRequest", { endpoint: "e", http_body: {} })],
    ["a text", Buffer.from("not a frame")],
    ["a broken message", frameMessage(Buffer.of(0x12, 0x7f))],
    ["a compressed message", Buffer.concat([Buffer.of(1), wrap("{}").subarray(1)])],
  ])("takes %s as it is", (_name, body) => {
    for (const parser of [vertexChat, vertexPredict])
      expect(parsed(parser, body)).toMatchObject({ model: "", modelInsertAt: -1, answerFormat: "opaque", prompts: [] });
  });
});

describe("gRPC parsers", () => {
  it("find what protobufjs wrote, whatever it is", () => {
    const generate = fc.record({
      request_id: fc.string(),
      input: fc.oneof(
        fc.record({ text: fc.string({ unit: "binary" }) }),
        fc.record({
          tokenized: fc.record({ original_text: fc.string(), input_ids: fc.array(fc.nat({ max: 2 ** 32 - 1 })) }),
        }),
      ),
      max: fc.option(fc.nat(), { nil: undefined }),
      stream: fc.boolean(),
      hashes: fc.array(fc.string({ minLength: 1 }), { maxLength: 4 }),
    });
    fc.assert(
      fc.property(generate, ({ request_id, input, max, stream, hashes }) => {
        const sampling = max === undefined ? {} : { sampling_params: { max_tokens: max } };
        const body = grpcFrame("GenerateRequest", {
          ...{ request_id, ...input, ...sampling, stream },
          mm_inputs: { mm_hashes: hashes },
        });
        const result = parsed(vllmGrpcGenerate, body);
        expect([result.streaming, result.maxTokens]).toEqual([stream, max ?? Number.NaN]);
        const bytes = Buffer.concat(result.prompts[0]!.map(({ start, end }) => body.subarray(start, end)));
        const tail = hashes.join("");
        if ("text" in input) expect(bytes.toString()).toBe(Buffer.from(input.text).toString() + tail);
        else
          expect(varints(bytes.subarray(0, bytes.length - Buffer.byteLength(tail)))).toEqual(input.tokenized.input_ids);
      }),
      { numRuns: 300 },
    );
  });

  it("never throw, and keep every range inside the body", () => {
    const frame = fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc.uint8Array({ maxLength: 40 }).map((message) => new Uint8Array(frameMessage(message))),
    );
    fc.assert(
      fc.property(frame, (body) => {
        for (const parser of [vllmGrpcGenerate, vllmGrpcEmbed, vertexChat, vertexPredict]) {
          const result = parser.parse(body, "");
          if (result instanceof Rejection) continue;
          for (const { start, end } of result.prompts.flat())
            expect(start >= 5 && start <= end && end <= body.length).toBe(true);
        }
      }),
      { numRuns: 3000 },
    );
  });
});

function varints(bytes: Buffer): number[] {
  const values: number[] = [];
  let [value, scale] = [0, 1];
  for (const byte of bytes) {
    value += (byte & 0x7f) * scale;
    scale *= 128;
    if (byte >= 0x80) continue;
    values.push(value);
    [value, scale] = [0, 1];
  }
  return values;
}
