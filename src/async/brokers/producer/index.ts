/** What applications import as `sluice/producer`. */
export { SluiceError } from "../../../base/inference/errors.ts";
export type { Logger } from "../../../base/telemetry/logger.ts";
export type { ErrorCode, ResultMessage } from "../messages/message.ts";
export type { Producer, SubmitRequest } from "../producer.ts";
export { createProducer, type ProducerOptions } from "./create-producer.ts";
export { createRequester, type RequesterOptions } from "./create-requester.ts";
export type { Requester, RequestOptions } from "./result-requester.ts";
