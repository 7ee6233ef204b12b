import type { AdminTls } from "../admin/listen.ts";
import type { Clock } from "../clock/clock.ts";
import { loadCertificates, loadTlsPair, selfSignedPair, type TlsPair } from "../grpc/tls.ts";
import { TlsFollower } from "../grpc/tls-follower.ts";
import type { GrpcTls } from "../grpc/transport.ts";
import type { Logger } from "../telemetry/logger.ts";

/** How the ports of the picker speak TLS. */
export interface TlsSettings {
  /** TLS on the ext_proc port. */
  readonly secureServing: boolean;
  /** Directory with tls.crt and tls.key; undefined = a self-signed pair. */
  readonly certPath: string | undefined;
  /** Follow changes of that directory. */
  readonly certReload: boolean;
  readonly minVersion: "TLSv1.2" | "TLSv1.3";
  /** OpenSSL's names, colons between them; undefined = the runtime's own choice. */
  readonly ciphers: string | undefined;
  /** Directory with tls.crt and tls.key of the metrics port, always followed; undefined = plain HTTP. */
  readonly metricsCertDir: string | undefined;
  /** Authorities of the clients of the metrics port; undefined = clients need no certificate. */
  readonly clientCaFile: string | undefined;
}

/** A server that can be given another certificate. */
interface TlsServer {
  useTlsPair(pair: TlsPair): void;
}

/**
 * The certificates of a process: read once, then followed where that was asked for.
 * Source: epp-protocol 15.2, 15.3.
 */
export class ServingTls {
  /** For the ext_proc port; undefined = clear text. */
  readonly extProc: GrpcTls | undefined;
  /** For the metrics port; undefined = plain HTTP. */
  readonly metrics: AdminTls | undefined;
  readonly #settings: TlsSettings;

  private constructor(settings: TlsSettings, extProc: GrpcTls | undefined, metrics: AdminTls | undefined) {
    this.#settings = settings;
    this.extProc = extProc;
    this.metrics = metrics;
  }

  /** @throws SluiceError TLS_... for files that cannot be read or do not hold what they should */
  static async load(settings: TlsSettings, clock: Clock): Promise<ServingTls> {
    const { secureServing, certPath, metricsCertDir, clientCaFile, minVersion, ciphers } = settings;
    let extProc: GrpcTls | undefined;
    if (secureServing) {
      const pair = certPath === undefined ? await selfSignedPair(clock) : loadTlsPair(certPath);
      extProc = { ...pair, minVersion, ciphers };
    }
    let metrics: AdminTls | undefined;
    if (metricsCertDir !== undefined) {
      const clientCa = clientCaFile === undefined ? undefined : loadCertificates(clientCaFile);
      metrics = { ...loadTlsPair(metricsCertDir), clientCa, minVersion, ciphers };
    }
    return new ServingTls(settings, extProc, metrics);
  }

  /** Begins to follow the directories for these servers; returns what stops that. */
  follow(extProc: TlsServer, metrics: TlsServer, clock: Clock, log: Logger): () => void {
    const { certPath, certReload, metricsCertDir } = this.#settings;
    const followed = [
      { directory: certReload ? certPath : undefined, pair: this.extProc, server: extProc },
      { directory: metricsCertDir, pair: this.metrics, server: metrics },
    ];
    const followers = followed.flatMap(({ directory, pair, server }) =>
      directory === undefined || pair === undefined
        ? []
        : [new TlsFollower({ directory, pair, use: (next) => server.useTlsPair(next), clock, log })],
    );
    return () => {
      for (const follower of followers) follower.close();
    };
  }
}
