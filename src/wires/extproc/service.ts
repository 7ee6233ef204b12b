import type { GrpcHandler } from "../../base/grpc/transport.ts";
import { Session, type SessionOptions } from "./session.ts";

/** Accepts a `Process` stream: one session each. */
export function processHandler(options: SessionOptions): GrpcHandler {
  return (stream) => new Session(stream, options);
}
