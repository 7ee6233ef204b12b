import type { AnswerFormat } from "../../../base/inference/request.ts";
import { embedUsage, GrpcUsageReader, generateUsage } from "./grpc-usage.ts";
import { WrappedUsageReader } from "./http-body-usage.ts";
import { JsonUsageReader } from "./json-usage-reader.ts";
import { SseUsageReader } from "./sse-usage.ts";
import type { UsageReader } from "./usage.ts";

const EVENT_STREAM = /text\/event-stream/i;

/**
 * The reader for an answer (epp-protocol 12, E-71, E-72).
 *
 * @param format of the parsed request
 * @param contentType of the answer; "" when it has none
 * @returns undefined when there is nothing to read
 */
export function usageReaderFor(format: AnswerFormat, contentType: string): UsageReader | undefined {
  switch (format) {
    case "http":
      return EVENT_STREAM.test(contentType) ? new SseUsageReader() : new JsonUsageReader();
    case "sglang":
      return EVENT_STREAM.test(contentType) ? new SseUsageReader("meta_info") : new JsonUsageReader();
    case "vllm-generate":
      return new GrpcUsageReader(generateUsage);
    case "vllm-embed":
      return new GrpcUsageReader(embedUsage);
    case "http-body":
      return new WrappedUsageReader();
    case "opaque":
      return undefined;
  }
}
