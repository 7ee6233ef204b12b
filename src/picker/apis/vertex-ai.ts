import { FRAME_PREFIX } from "../../base/grpc/frames.ts";
import { Reader, WIRE } from "../../base/grpc/protobuf.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { ByteRange, ParsedBody } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { anyJson } from "./any-json.ts";
import { chatCompletions } from "./chat-completions.ts";
import { isOneMessage } from "./grpc-payload.ts";
import { raw } from "./raw.ts";
import { responses } from "./responses.ts";

/** `http_body` in the requests of Vertex AI's prediction service, and `data` in `google.api.HttpBody`: both field 2. */
const FIELD_2 = (2 << 3) | WIRE.bytes;

/** Vertex AI's chat over gRPC (epp-protocol 10.2). */
export const vertexChat = wrapped("vertex-chat", ["ChatCompletions"], [chatCompletions]);
/** Vertex AI's calls that pass on a body of any API. */
export const vertexPredict = wrapped("vertex-predict", ["StreamRawPredict", "RawPredict"], [responses, anyJson]);

/**
 * A gRPC message with the JSON of another API in it. What is in no such form is taken as it is; the name of the model is
 * known but stays, because other lengths would have to change with its own.
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

/** Where the wrapped body is. */
function dataOf(body: Uint8Array): ByteRange | undefined {
  try {
    const reader = new Reader(body, FRAME_PREFIX);
    if (!enterLast(reader) || !enterLast(reader)) return undefined;
    return { start: reader.position, end: reader.end };
  } catch {
    return undefined;
  }
}

/** Narrows the reader to the value of the last field 2 of the message it stands in; false when there is none. */
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
