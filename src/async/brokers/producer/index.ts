/** The package entry `sluice/producer` for applications. */
export { SluiceError } from "../../../base/inference/errors.ts";
export type { Logger } from "../../../base/telemetry/logger.ts";
export type { ErrorCode, ResultMessage } from "../messages/message.ts";
export type { Producer, SubmitRequest } from "../queue-client.ts";
export { createProducer, createRequester, type ProducerOptions, type RequesterOptions } from "./create-producer.ts";
export type { Requester, RequestOptions } from "./result-requester.ts";
