import { deepStrictEqual, ok } from "node:assert/strict";
import { Deframer } from "../../../src/base/grpc/frames.ts";
import { SluiceError } from "../../../src/base/inference/errors.ts";
import { Rejection } from "../../../src/base/inference/outcomes.ts";
import { sglangHttp, vertexAi, vllmGrpc } from "../../../src/picker/apis/families.ts";
import { MAX_ANSWER_MESSAGE } from "../../../src/picker/apis/usage/grpc-usage.ts";
import { usageReaderFor } from "../../../src/picker/apis/usage/usage-reader.ts";
import type { FuzzTarget } from "../target.ts";
import { cutsOf } from "./cuts.ts";

const PARSERS = [vllmGrpc, vertexAi, sglangHttp].flatMap(({ parsers }) => parsers);
const FORMATS = ["vllm-generate", "vllm-embed", "http-body"] as const;

/** However a gRPC stream is cut, its messages and their usage are the same; request parsers keep to the body. */
export const grpc: FuzzTarget = {
  name: "grpc",
  shortRuns: 3000,
  tokens: [
    ...[
      [0, 0, 0, 0, 0],
      [0, 0, 0, 0, 1],
      [1, 0, 0, 0, 2],
      [0, 0xff, 0xff, 0xff, 0xff],
      [0, 0, 0x10, 0, 0],
    ].map(bytes),
    ...[
      [0x0a, 2],
      [0x12, 4],
      [0x1a, 1],
      [0x22, 2, 0x40, 7],
      [0x28, 1],
      [0x3a, 3, 0x32, 1, 0x61],
      [0x10, 1],
    ].map(bytes),
    ...[
      [0x18, 0x80, 1],
      [0x0b],
      [0x0c],
      [0x0d, 1, 2, 3, 4],
      [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
    ].map(bytes),
    '{"model":"m","messages":[1],"input":"i"}',
    '{"usage":{"prompt_tokens":1}}',
    'data: {"usage":{"prompt_tokens":1}}\n\n',
  ],
  run(input) {
    const framed = sameForAllCuts(input, messagesOf);
    const usages = FORMATS.map((format) =>
      sameForAllCuts(input, (pieces) => {
        const reader = usageReaderFor(format, "")!;
        for (const piece of pieces) reader.feed(piece);
        reader.finish();
        return reader.usage;
      }),
    );
    const said = PARSERS.map((parser) => {
      const result = parser.parse(input, "");
      if (result instanceof Rejection) return result.detail.slice(0, 70);
      for (const { start, end } of result.prompts.flat()) ok(start >= 0 && start <= end && end <= input.length);
      return `${result.answerFormat} ${Math.min(8, result.prompts[0]?.length ?? 0)} ${result.streaming} ${result.maxTokens >= 0}`;
    });
    const count = Math.min(8, framed.starts.split(" ").length - 1);
    return `${count} ${framed.end} ${usages.map((usage) => usage !== undefined)} ${said}`;
  },
};

function bytes(list: readonly number[]): Uint8Array {
  return Uint8Array.from(list);
}

function sameForAllCuts<T>(input: Buffer, read: (pieces: Buffer[]) => T): T {
  const [whole, ...others] = cutsOf(input).map(read);
  for (const other of others) deepStrictEqual(other, whole);
  return whole!;
}

/** The messages of a stream: all their bytes, where each begins and whether it is compressed, and how the stream ended. */
interface Framed {
  readonly bytes: Buffer;
  readonly starts: string;
  readonly end: string;
}

function messagesOf(pieces: readonly Buffer[]): Framed {
  const deframer = new Deframer(MAX_ANSWER_MESSAGE);
  const messages: Buffer[] = [];
  let [starts, at] = ["", 0];
  const framed = (end: string): Framed => ({ bytes: Buffer.concat(messages), starts, end });
  try {
    for (const piece of pieces) {
      deframer.push(piece);
      for (let message = deframer.next(); message !== undefined; message = deframer.next()) {
        messages.push(message);
        starts += `${deframer.compressed ? "!" : ""}${at} `;
        at += message.length;
      }
    }
    return framed(deframer.midMessage ? "cut" : "whole");
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    return framed(error.code);
  }
}
