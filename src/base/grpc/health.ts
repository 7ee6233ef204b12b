import { oneRequest } from "./one-request.ts";
import { Reader, Writer } from "./protobuf.ts";
import { GRPC_STATUS } from "./status.ts";
import type { GrpcHandler, GrpcStream } from "./transport.ts";

/** `grpc.health.v1.HealthCheckResponse.ServingStatus`. */
export const SERVING_STATUS = { unknown: 0, serving: 1, notServing: 2, serviceUnknown: 3 } as const;

export type ServingStatus = (typeof SERVING_STATUS)[keyof typeof SERVING_STATUS];

/** The name under which Envoy checks an ext_proc server. */
export const EXT_PROC_SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor";

/** The source of the answers to health checks. */
export interface HealthSource {
  /** The status of a service name; undefined = no such name, which answers NOT_FOUND. */
  status(service: string): ServingStatus | undefined;
  /** The names worth listing. */
  list(): readonly string[];
  /**
   * Calls `listener` after every change, until the returned function is called. Absent = changes cannot be watched, and Watch
   * answers UNIMPLEMENTED.
   */
  onChange?(listener: () => void): () => void;
  /** There will be no further change: a Watch gets the status and ends. */
  readonly final?: boolean;
}

/** The state that decides the answers of the health port. */
export interface ProbeState {
  /** A pool definition is held at present: a file of endpoints, manifests or an InferencePool. */
  readonly synced: boolean;
  /** The process has received the signal to end. */
  readonly draining: boolean;
  /** Every plugin that reports readiness is ready. */
  readonly pluginsReady: boolean;
  /** Whether this replica leads; undefined = leader election is off. */
  readonly leader?: boolean | undefined;
}

/**
 * Names that ask whether clients may send requests here, which also depends on plugins. With leader election a probe may ask
 * for these names and `liveness` only.
 */
const READINESS_NAMES: ReadonlySet<string> = new Set(["", "readiness", EXT_PROC_SERVICE]);

/**
 * The table of epp-protocol 14.1: the answer to a Kubernetes probe of `service`. `liveness` is SERVING as long as the process
 * runs, in both modes (docs/spec/decisions.md#health).
 *
 * Any other name has no meaning of its own, such as the one by which charts probe liveness and readiness alike. Without leader
 * election its answer ignores plugins, because no plugin must make Kubernetes restart the process. With election only the
 * leader is ready, and such names are SERVICE_UNKNOWN, as a status and not as an error.
 */
export function probeStatus(service: string, state: ProbeState): ServingStatus {
  const { synced, draining, pluginsReady, leader } = state;
  if (service === "liveness") return SERVING_STATUS.serving;
  const ofReadiness = READINESS_NAMES.has(service);
  if (leader !== undefined && !ofReadiness) return SERVING_STATUS.serviceUnknown;
  const serves = synced && !draining && leader !== false && (pluginsReady || !ofReadiness);
  return serves ? SERVING_STATUS.serving : SERVING_STATUS.notServing;
}

/** The health service for Kubernetes probes, on port 9003. Its Watch is UNIMPLEMENTED, as in the reference. */
export function probeHealth(state: () => ProbeState): HealthSource {
  return {
    status: (service) => probeStatus(service, state()),
    list: () => (state().leader === undefined ? [EXT_PROC_SERVICE] : [EXT_PROC_SERVICE, "liveness", "readiness"]),
  };
}

/**
 * The health service for Envoy's active check (port 9002, epp-protocol 14.2). It is SERVING from the start until the drain
 * begins, for the empty name and that of the ext_proc service.
 */
export class ProcessorHealth implements HealthSource {
  #draining = false;
  readonly #listeners = new Set<() => void>();

  get final(): boolean {
    return this.#draining;
  }

  /**
   * NOT_SERVING from here on, for good. Each Watch gets this status and ends. An open Watch would keep its connection, and so
   * the process, beyond the drain window.
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
    ["/grpc.health.v1.Health/Check", oneRequest(serviceOf, (service, stream) => check(stream, source, service))],
    ["/grpc.health.v1.Health/List", oneRequest(serviceOf, (_, stream) => list(stream, source))],
    ["/grpc.health.v1.Health/Watch", oneRequest(serviceOf, (service, stream) => watch(stream, source, service))],
  ]);
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
 * health protocol requires.
 */
function watch(stream: GrpcStream, source: HealthSource, service: string): (() => void) | undefined {
  if (source.onChange === undefined) {
    stream.end(GRPC_STATUS.unimplemented, "this port does not support Watch; use Check");
    return undefined;
  }
  let last: ServingStatus | undefined;
  const tell = (): void => {
    const status = source.status(service) ?? SERVING_STATUS.serviceUnknown;
    if (status !== last) stream.send(statusMessage(status));
    last = status;
    if (source.final === true) stream.end(GRPC_STATUS.unavailable, "the server is shutting down");
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
