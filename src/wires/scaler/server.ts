import type { Timer } from "../../base/clock/clock.ts";
import { createH2Server, type H2GrpcServer } from "../../base/grpc/h2/server.ts";
import type { GrpcTls } from "../../base/grpc/transport.ts";
import { Scaler, type ScalerParts } from "./scaler.ts";

/** The clients are few: the replicas of KEDA's operator and of its metrics server. A request is one ScaledObject. */
const LIMITS = { maxConnections: 64, maxStreams: 128, maxTotalStreams: 512, maxMessageBytes: 64 * 1024 } as const;

/** Milliseconds between two checks whether this replica still leads. */
const CHECK = 1000;

export interface ScalerServerOptions extends ScalerParts {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  /** Absent = clear text. */
  readonly tls?: GrpcTls | undefined;
  readonly onError: (error: unknown) => void;
}

/** A scaler that listens. */
export interface ScalerServer extends Pick<H2GrpcServer, "useTlsPair" | "close"> {
  readonly port: number;
  /** Ends the streams and takes no new connections and calls, so that clients connect to another replica. */
  drain(): void;
}

/**
 * Serves the external scaler. A replica that does not lead sends its clients away, because a client keeps its connection for as
 * long as it can, and the Service leads only new connections to the leader.
 * @throws SluiceError LISTEN_FAILED
 */
export async function startScaler(options: ScalerServerOptions): Promise<ScalerServer> {
  const { host, port, tls, clock, leads, onError } = options;
  const scaler = new Scaler(options);
  const server = createH2Server(
    { ...LIMITS, host, port, tls, handlers: scaler.handlers(), onHandlerError: onError },
    clock,
  );
  const bound = await server.listen();
  let check: Timer;
  const dismissUnlessLeading = (): void => {
    if (!leads()) server.dismiss();
    check = clock.after(CHECK, dismissUnlessLeading, true);
  };
  dismissUnlessLeading();
  return {
    port: bound.port,
    useTlsPair: (pair) => server.useTlsPair(pair),
    drain() {
      scaler.drain();
      void server.drain();
    },
    close() {
      check.cancel();
      server.close();
    },
  };
}
