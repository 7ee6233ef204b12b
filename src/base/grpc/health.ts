import { messageOf } from "../inference/errors.ts";
import { Reader, Writer } from "./protobuf.ts";
import { GRPC_STATUS } from "./status.ts";
import type { GrpcHandler, GrpcStream, GrpcStreamEvents } from "./transport.ts";

/** `grpc.health.v1.HealthCheckResponse.ServingStatus`. */
export const SERVING_STATUS = { unknown: 0, serving: 1, notServing: 2, serviceUnknown: 3 } as const;

export type ServingStatus = (typeof SERVING_STATUS)[keyof typeof SERVING_STATUS];

/** The name under which Envoy checks an ext_proc server. */
export const EXT_PROC_SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor";

/** Who is asked. */
export interface HealthSource {
  /** The status of a service name; undefined = no such name, which answers NOT_FOUND. */
  status(service: string): ServingStatus | undefined;
  /** The names worth listing. */
  list(): readonly string[];
  /**
   * Calls `listener` after every change, until the function returned is called. Absent = changes cannot be watched, and
   * Watch answers UNIMPLEMENTED.
   */
  onChange?(listener: () => void): () => void;
  /** The last change is made: a Watch is told the status and ends. */
  readonly final?: boolean;
}

/** What the health port's answers follow from. */
export interface ProbeState {
  /** A pool definition is held at present: a file of endpoints, manifests, later an InferencePool. */
  readonly synced: boolean;
  /** Told to end. */
  readonly draining: boolean;
  /** Every plugin that can tell says that it can do its part. */
  readonly pluginsReady: boolean;
  /** Whether this replica leads; undefined = leader election is off. */
  readonly leader?: boolean | undefined;
}

/**
 * Names that ask whether requests may be sent here: that takes plugins, too. Where leader election is on these may be asked for
 * and no others.
 */
const READINESS_NAMES: ReadonlySet<string> = new Set(["", "readiness", EXT_PROC_SERVICE]);

/**
 * The table of epp-protocol 14.1: what a Kubernetes probe of `service` is answered. `liveness` is SERVING as long as the
 * process runs, in both modes (docs/spec/decisions.md#health). Without leader election every name of no meaning of its own, such as
 * that by which charts probe liveness and readiness alike, is answered without a look at plugins: none must have the process
 * restarted. With election only the leader is ready, and such names are SERVICE_UNKNOWN, as a status and not as an error.
 */
export function probeStatus(service: string, state: ProbeState): ServingStatus {
  const { synced, draining, pluginsReady, leader } = state;
  if (service === "liveness") return SERVING_STATUS.serving;
  const ofReadiness = READINESS_NAMES.has(service);
  if (leader !== undefined && !ofReadiness) return SERVING_STATUS.serviceUnknown;
  const serves = synced && !draining && leader !== false && (pluginsReady || !ofReadiness);
  return serves ? SERVING_STATUS.serving : SERVING_STATUS.notServing;
}

/** Health as Kubernetes probes see it, on port 9003. Its Watch is UNIMPLEMENTED, as the reference's is. */
export function probeHealth(state: () => ProbeState): HealthSource {
  return {
    status: (service) => probeStatus(service, state()),
    list: () => (state().leader === undefined ? [EXT_PROC_SERVICE] : [EXT_PROC_SERVICE, "liveness", "readiness"]),
  };
}

/**
 * Health as Envoy's active check sees it (port 9002, epp-protocol 14.2): SERVING from the start on, for the empty name and
 * that of the ext_proc service, until the drain begins.
 */
export class ProcessorHealth implements HealthSource {
  #draining = false;
  readonly #listeners = new Set<() => void>();

  get final(): boolean {
    return this.#draining;
  }

  /**
   * NOT_SERVING from here on, for good. Whoever watches is told so, and the Watch ends: an open one would keep its connection,
   * and with it the process, beyond the drain window.
   */
  drain(): void {
    if (this.#draining) return;
    this.#draining = true;
    for (const listener of [...this.#listeners]) listener();
  }

  status(service: string): ServingStatus | undefined {
    if (service !== "" && service !== EXT_PROC_SERVICE) return undefined;
    return this.#draining ? SERVING_STATUS.notServing : SERVING_STATUS.serving;
  }

  list(): readonly string[] {
    return ["", EXT_PROC_SERVICE];
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** The methods of `grpc.health.v1.Health` by path. */
export function healthHandlers(source: HealthSource): Map<string, GrpcHandler> {
  return new Map<string, GrpcHandler>([
    ["/grpc.health.v1.Health/Check", (stream) => new OneRequest(stream, (service) => check(stream, source, service))],
    ["/grpc.health.v1.Health/List", (stream) => new OneRequest(stream, () => list(stream, source))],
    ["/grpc.health.v1.Health/Watch", (stream) => new OneRequest(stream, (service) => watch(stream, source, service))],
  ]);
}

/** A call with one request message; `answer` returns what is to be undone when the call is over. */
class OneRequest implements GrpcStreamEvents {
  readonly #stream: GrpcStream;
  readonly #answer: (service: string) => (() => void) | undefined;
  #asked = false;
  #undo: (() => void) | undefined;

  constructor(stream: GrpcStream, answer: (service: string) => (() => void) | undefined) {
    this.#stream = stream;
    this.#answer = answer;
  }

  message(bytes: Uint8Array): void {
    if (this.#asked) return;
    this.#asked = true;
    let service: string;
    try {
      service = serviceOf(bytes);
    } catch (error) {
      this.#stream.end(GRPC_STATUS.internal, messageOf(error));
      return;
    }
    this.#undo = this.#answer(service);
  }

  halfClosed(): void {
    if (!this.#asked) this.#stream.end(GRPC_STATUS.internal, "the call carries no request message");
  }

  closed(): void {
    this.#undo?.();
  }
}

function check(stream: GrpcStream, source: HealthSource, service: string): undefined {
  const status = source.status(service);
  if (status === undefined) {
    stream.end(GRPC_STATUS.notFound, "unknown service");
    return;
  }
  stream.send(statusMessage(status));
  stream.end(GRPC_STATUS.ok);
}

/** HealthListResponse: a map from name to HealthCheckResponse in field 1. */
function list(stream: GrpcStream, source: HealthSource): undefined {
  const writer = new Writer();
  writer.begin();
  for (const service of source.list().toReversed()) {
    const entry = writer.length;
    writer.bytes(statusMessage(source.status(service) ?? SERVING_STATUS.unknown));
    writer.close(0x12, entry);
    const name = writer.length;
    writer.utf8(service);
    writer.close(0x0a, name);
    writer.close(0x0a, entry);
  }
  stream.send(writer.finish());
  stream.end(GRPC_STATUS.ok);
}

/**
 * Sends the status now and after every change, and ends after the last one. An unknown name is SERVICE_UNKNOWN here, as the
 * health protocol wants.
 */
function watch(stream: GrpcStream, source: HealthSource, service: string): (() => void) | undefined {
  if (source.onChange === undefined) {
    stream.end(GRPC_STATUS.unimplemented, "health cannot be watched on this port, use Check");
    return undefined;
  }
  let last: ServingStatus | undefined;
  const tell = (): void => {
    const status = source.status(service) ?? SERVING_STATUS.serviceUnknown;
    if (status !== last) stream.send(statusMessage(status));
    last = status;
    if (source.final === true) stream.end(GRPC_STATUS.unavailable, "the server is about to end");
  };
  tell();
  return source.onChange(tell);
}

/** HealthCheckRequest: `service` = 1. */
function serviceOf(bytes: Uint8Array): string {
  const reader = new Reader(bytes);
  let service = "";
  while (reader.more) {
    const tag = reader.tag();
    if (tag === 0x0a) service = reader.utf8();
    else reader.skip(tag);
  }
  return service;
}

/** HealthCheckResponse: `status` = 1. */
function statusMessage(status: ServingStatus): Uint8Array {
  return Uint8Array.of(0x08, status);
}
