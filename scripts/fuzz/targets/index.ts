import type { FuzzTarget } from "../target.ts";
import { codec } from "./codec.ts";
import { flow } from "./flow.ts";
import { grpc } from "./grpc.ts";
import { json } from "./json.ts";
import { session } from "./session.ts";
import { sse } from "./sse.ts";

/** Everything that is fuzzed. */
export const TARGETS: readonly FuzzTarget[] = [json, sse, grpc, codec, session, flow];
