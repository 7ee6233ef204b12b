import { FRAME_PREFIX } from "../../base/grpc/frames.ts";
import { Reader, WIRE } from "../../base/grpc/protobuf.ts";
import { oneLine } from "../../base/inference/errors.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { AnswerFormat, ByteRange, ParsedBody } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { anyJson, raw } from "./fallbacks.ts";
import { chatCompletions, responses } from "./openai.ts";

/** The most pieces of one list of token ids; encoders write one. Further pieces join the last one. */
export const MAX_PIECES = 64;

// Fields, as number << 3 | wire type (epp-protocol appendix C).
const TOKENIZED = (2 << 3) | WIRE.bytes;
const TEXT = (3 << 3) | WIRE.bytes;
const SAMPLING_PARAMS = (4 << 3) | WIRE.bytes;
const STREAM = (5 << 3) | WIRE.varint;
const MM_INPUTS = (7 << 3) | WIRE.bytes;
const INPUT_IDS = (2 << 3) | WIRE.bytes;
const INPUT_ID = (2 << 3) | WIRE.varint;
const MAX_TOKENS = (8 << 3) | WIRE.varint;
const MM_HASHES = (6 << 3) | WIRE.bytes;

/** `Generate` of vLLM's gRPC API (epp-protocol 10.4): the request names no model. */
export const vllmGrpcGenerate = method("Generate", "vllm-generate", (reader) => {
  let input: ByteRange[] | undefined;
  let maxTokens = Number.NaN;
  let streaming = false;
  const hashes: ByteRange[] = [];
  while (reader.more) {
    const tag = reader.tag();
    // `tokenized` and `text` exclude each other; the last one counts.
    if (tag === TOKENIZED) input = readTokenized(reader);
    else if (tag === TEXT) input = [rangeOf(reader)];
    else if (tag === SAMPLING_PARAMS) maxTokens = readMaxTokens(reader, maxTokens);
    else if (tag === STREAM) streaming = reader.bool();
    else if (tag === MM_INPUTS) readHashes(reader, hashes);
    else reader.skip(tag);
  }
  if (input === undefined) return "not supported request inputType";
  return { prompt: [...input, ...hashes], streaming, maxTokens };
});

/** `Embed` of vLLM's gRPC API. */
export const vllmGrpcEmbed = method("Embed", "vllm-embed", (reader) => {
  let input: ByteRange[] | undefined;
  while (reader.more) {
    const tag = reader.tag();
    if (tag === TOKENIZED) input = readTokenized(reader);
    else reader.skip(tag);
  }
  if (input === undefined) return "missing tokenized input in EmbedRequest";
  return { prompt: input, streaming: false, maxTokens: Number.NaN };
});

/** The fallback where vLLM's gRPC parser is the only parser, as in v1.5: it refuses every other path (epp-protocol 10.2). */
export const unsupportedGrpcPath: BodyParser = {
  name: "unsupported-grpc-path",
  suffixes: [],
  parse: (_body, path) => new Rejection("no_parser", oneLine(`unsupported gRPC path: ${path}`)),
};

interface GrpcRequest {
  readonly prompt: readonly ByteRange[];
  readonly streaming: boolean;
  readonly maxTokens: number;
}

/** @param read reads the message without its prefix; a returned text names the missing part */
function method(name: string, answerFormat: AnswerFormat, read: (reader: Reader) => GrpcRequest | string): BodyParser {
  const refuse = (cause: string): Rejection =>
    new Rejection("bad_request", `parsing gRPC payload for ${name}: ${cause}`);
  return {
    name: `vllm-grpc-${name.toLowerCase()}`,
    suffixes: [`/vllm.grpc.engine.VllmEngine/${name}`],
    parse(body): ParsedBody | Rejection {
      if (!isOneMessage(body)) return refuse("not able to parse payload");
      let request: GrpcRequest | string;
      try {
        request = read(new Reader(body, FRAME_PREFIX));
      } catch {
        return refuse("not able to parse payload");
      }
      if (typeof request === "string") return refuse(request);
      return {
        model: "",
        modelRange: undefined,
        modelInsertAt: -1,
        answerFormat,
        streaming: request.streaming,
        cacheSalt: "",
        prompts: [request.prompt],
        maxTokens: request.maxTokens,
      };
    },
  };
}

/** Returns the ids of a `TokenizedInput`, packed or one by one, as bytes. */
function readTokenized(reader: Reader): ByteRange[] {
  const outer = reader.enter();
  const ranges: ByteRange[] = [];
  while (reader.more) {
    const tagAt = reader.position;
    const tag = reader.tag();
    if (tag === INPUT_IDS) {
      add(ranges, rangeOf(reader));
    } else if (tag === INPUT_ID) {
      // The tags between single ids are equal in all requests of a client.
      reader.varint();
      add(ranges, { start: tagAt, end: reader.position });
    } else {
      reader.skip(tag);
    }
  }
  reader.end = outer;
  return ranges;
}

function readMaxTokens(reader: Reader, earlier: number): number {
  const outer = reader.enter();
  let maxTokens = earlier;
  while (reader.more) {
    const tag = reader.tag();
    if (tag === MAX_TOKENS) maxTokens = reader.varint();
    else reader.skip(tag);
  }
  reader.end = outer;
  return maxTokens;
}

function readHashes(reader: Reader, ranges: ByteRange[]): void {
  const outer = reader.enter();
  while (reader.more) {
    const tag = reader.tag();
    if (tag === MM_HASHES) add(ranges, rangeOf(reader));
    else reader.skip(tag);
  }
  reader.end = outer;
}

/** Returns the range of a length-delimited value and moves the reader after it. */
function rangeOf(reader: Reader): ByteRange {
  const length = reader.length();
  const start = reader.position;
  reader.position = start + length;
  return { start, end: reader.position };
}

function add(ranges: ByteRange[], range: ByteRange): void {
  const last = ranges.at(-1);
  if (last !== undefined && (last.end === range.start || ranges.length >= MAX_PIECES)) {
    ranges[ranges.length - 1] = { start: last.start, end: range.end };
  } else {
    ranges.push(range);
  }
}

/** `http_body` in the requests of Vertex AI's prediction service, and `data` in `google.api.HttpBody`: both field 2. */
const FIELD_2 = (2 << 3) | WIRE.bytes;

/** Vertex AI's chat over gRPC (epp-protocol 10.2). */
export const vertexChat = wrapped("vertex-chat", ["ChatCompletions"], [chatCompletions]);
/** Vertex AI's methods that pass on a body of any API. */
export const vertexPredict = wrapped("vertex-predict", ["StreamRawPredict", "RawPredict"], [responses, anyJson]);

/**
 * Reads a gRPC message that wraps the JSON of another API. A body of another form is accepted unchanged. Sluice reads the model
 * name but does not change it, because the lengths around it would change too.
 */
function wrapped(name: string, methods: readonly string[], inner: readonly BodyParser[]): BodyParser {
  return {
    name,
    suffixes: ["v1", "v1beta1"].flatMap((version) =>
      methods.map((method) => `/google.cloud.aiplatform.${version}.PredictionService/${method}`),
    ),
    parse(body): ParsedBody {
      const data = isOneMessage(body) ? dataOf(body) : undefined;
      if (data === undefined) return raw();
      for (const parser of inner) {
        const parsed = parser.parse(body.subarray(data.start, data.end), "");
        if (parsed instanceof Rejection) continue;
        if (parsed.answerFormat === "opaque") break;
        const prompts = parsed.prompts.map((ranges) => ranges.map((range) => shifted(range, data.start)));
        return { ...parsed, modelRange: undefined, modelInsertAt: -1, answerFormat: "http-body", prompts };
      }
      return raw();
    },
  };
}

/** Returns the place of the wrapped body. */
function dataOf(body: Uint8Array): ByteRange | undefined {
  try {
    const reader = new Reader(body, FRAME_PREFIX);
    if (!enterLast(reader) || !enterLast(reader)) return undefined;
    return { start: reader.position, end: reader.end };
  } catch {
    return undefined;
  }
}

/** Narrows the reader to the value of the last field 2 of its message; false when there is none. */
function enterLast(reader: Reader): boolean {
  let start = -1;
  let end = -1;
  while (reader.more) {
    const tag = reader.tag();
    if (tag === FIELD_2) {
      const length = reader.length();
      start = reader.position;
      end = start + length;
      reader.position = end;
    } else {
      reader.skip(tag);
    }
  }
  reader.position = start;
  reader.end = end;
  return start >= 0;
}

function shifted({ start, end }: ByteRange, by: number): ByteRange {
  return { start: start + by, end: end + by };
}

/**
 * Whether a complete body is one uncompressed gRPC message: a flag of 0, the length, and as many bytes (epp-protocol 10.4). The
 * message follows this prefix.
 */
function isOneMessage(body: Uint8Array): boolean {
  if (body.length < FRAME_PREFIX || body[0] !== 0) return false;
  const length = body[1]! * 0x1000000 + ((body[2]! << 16) | (body[3]! << 8) | body[4]!);
  return length === body.length - FRAME_PREFIX;
}
