import protobuf from "protobufjs";
import { frameMessage } from "../../src/base/grpc/frames.ts";

/** The fields that are read of vLLM's gRPC API, and of Google's messages that wrap HTTP bodies. */
const PROTO = `
syntax = "proto3";
message SamplingParams { optional uint32 max_tokens = 8; uint32 n = 15; }
message TokenizedInput { string original_text = 1; repeated uint32 input_ids = 2; }
message UnpackedInput { string original_text = 1; repeated uint32 input_ids = 2 [packed = false]; }
message PlaceholderRange { uint32 offset = 1; uint32 length = 2; }
message MultimodalInputs { repeated PlaceholderRange mm_placeholders = 5; repeated string mm_hashes = 6; }
message GenerateRequest {
  string request_id = 1;
  oneof input { TokenizedInput tokenized = 2; string text = 3; }
  SamplingParams sampling_params = 4;
  bool stream = 5;
  MultimodalInputs mm_inputs = 7;
}
message UnpackedRequest { string request_id = 1; UnpackedInput tokenized = 2; }
message GenerateStreamChunk { repeated uint32 token_ids = 1; uint32 prompt_tokens = 2; uint32 completion_tokens = 3; uint32 cached_tokens = 4; }
message GenerateComplete { repeated uint32 output_ids = 1; string finish_reason = 2; uint32 prompt_tokens = 3; uint32 completion_tokens = 4; uint32 cached_tokens = 5; }
message GenerateResponse { oneof response { GenerateStreamChunk chunk = 1; GenerateComplete complete = 2; } }
message EmbedRequest { string request_id = 1; TokenizedInput tokenized = 2; }
message EmbedResponse { repeated float embedding = 1; uint32 prompt_tokens = 2; uint32 embedding_dim = 3; }
message HttpBody { string content_type = 1; bytes data = 2; }
message PredictRequest { string endpoint = 1; HttpBody http_body = 2; }
`;
const { root } = protobuf.parse(PROTO, { keepCase: true });

/** A framed message of a type above, as protobufjs writes it. */
export function grpcFrame(type: string, value: object): Buffer {
  const message = root.lookupType(type);
  return frameMessage(message.encode(message.fromObject(value)).finish());
}
