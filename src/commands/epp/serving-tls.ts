import { dirname } from "node:path";
import type { Clock } from "../../base/clock/clock.ts";
import { selfSignedPair } from "../../base/grpc/self-signed.ts";
import { loadCertificates, loadTlsPair, type TlsPair } from "../../base/grpc/tls.ts";
import { FOLLOWED, TlsFollower } from "../../base/grpc/tls-follower.ts";
import type { GrpcTls } from "../../base/grpc/transport.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { AdminTls } from "../../wires/admin/listen.ts";

/** The TLS settings of the picker's ports. */
export interface TlsSettings {
  /** TLS on the ext_proc port. */
  readonly secureServing: boolean;
  /** Directory with tls.crt and tls.key; undefined = a self-signed pair. */
  readonly certPath: string | undefined;
  /** Reload the pair when that directory changes. */
  readonly certReload: boolean;
  readonly minVersion: "TLSv1.2" | "TLSv1.3";
  /** OpenSSL's names, separated by colons; undefined = the default of Node.js. */
  readonly ciphers: string | undefined;
  /** Authorities of the clients of the ext_proc port, always reloaded on a change; undefined = clients need no certificate. */
  readonly extProcClientCaFile: string | undefined;
  /** Directory with tls.crt and tls.key of the external scaler, always reloaded on a change; undefined = clear text. */
  readonly scalerCertDir: string | undefined;
  /** Directory with tls.crt and tls.key of the metrics port, always reloaded on a change; undefined = plain HTTP. */
  readonly metricsCertDir: string | undefined;
  /** Authorities of the clients of the metrics port; undefined = clients need no certificate. */
  readonly clientCaFile: string | undefined;
}

/** A server that accepts a new certificate while it runs. */
interface TlsServer {
  useTlsPair(pair: TlsPair): void;
}

/** A server that also accepts new authorities while it runs. */
interface ClientCaServer extends TlsServer {
  useClientCa(clientCa: string): void;
}

/** The servers whose certificates are followed. */
interface FollowedServers {
  readonly extProc: ClientCaServer;
  /** Undefined = there is none. */
  readonly scaler: TlsServer | undefined;
  readonly metrics: TlsServer;
}

/**
 * The certificates of a process: read once, then reloaded on a change if the settings ask for it. Source: epp-protocol 15.2,
 * 15.3.
 */
export class ServingTls {
  /** For the ext_proc port; undefined = clear text. */
  readonly extProc: GrpcTls | undefined;
  /** For the ext_proc port, PEM; undefined = clients need no certificate. */
  readonly clientCa: string | undefined;
  /** For the external scaler; undefined = clear text. */
  readonly scaler: GrpcTls | undefined;
  /** For the metrics port; undefined = plain HTTP. */
  readonly metrics: AdminTls | undefined;
  readonly #settings: TlsSettings;

  private constructor(settings: TlsSettings, made: Pick<ServingTls, "extProc" | "clientCa" | "scaler" | "metrics">) {
    this.#settings = settings;
    this.extProc = made.extProc;
    this.clientCa = made.clientCa;
    this.scaler = made.scaler;
    this.metrics = made.metrics;
  }

  /** @throws SluiceError TLS_... for files that are unreadable or have wrong contents */
  static async load(settings: TlsSettings, clock: Clock): Promise<ServingTls> {
    const { secureServing, certPath, metricsCertDir, clientCaFile, minVersion, ciphers } = settings;
    const { extProcClientCaFile, scalerCertDir } = settings;
    let extProc: GrpcTls | undefined;
    if (secureServing) {
      const pair = certPath === undefined ? await selfSignedPair(clock) : loadTlsPair(certPath);
      extProc = { ...pair, minVersion, ciphers };
    }
    const clientCa = extProcClientCaFile === undefined ? undefined : loadCertificates(extProcClientCaFile);
    const scaler = scalerCertDir === undefined ? undefined : { ...loadTlsPair(scalerCertDir), minVersion, ciphers };
    let metrics: AdminTls | undefined;
    if (metricsCertDir !== undefined) {
      const readers = clientCaFile === undefined ? undefined : loadCertificates(clientCaFile);
      metrics = { ...loadTlsPair(metricsCertDir), clientCa: readers, minVersion, ciphers };
    }
    return new ServingTls(settings, { extProc, clientCa, scaler, metrics });
  }

  /** Begins to reload the files for these servers; returns a function that stops it. */
  follow({ extProc, scaler, metrics }: FollowedServers, clock: Clock, log: Logger): () => void {
    const { certPath, certReload, scalerCertDir, metricsCertDir, extProcClientCaFile } = this.#settings;
    const followed = [
      { directory: certReload ? certPath : undefined, pair: this.extProc, server: extProc },
      { directory: scalerCertDir, pair: this.scaler, server: scaler },
      { directory: metricsCertDir, pair: this.metrics, server: metrics },
    ];
    const followers: { close(): void }[] = followed.flatMap(({ directory, pair, server }) =>
      directory === undefined || pair === undefined || server === undefined
        ? []
        : [
            new TlsFollower({
              ...{ what: FOLLOWED.pair, directory, clock, log },
              load: () => loadTlsPair(directory),
              inUse: { cert: pair.cert, key: pair.key },
              use: (next) => server.useTlsPair(next),
            }),
          ],
    );
    if (extProcClientCaFile !== undefined)
      followers.push(
        new TlsFollower({
          ...{ what: FOLLOWED.clientCa, directory: dirname(extProcClientCaFile), clock, log },
          load: () => loadCertificates(extProcClientCaFile),
          inUse: this.clientCa ?? "",
          use: (next) => extProc.useClientCa(next),
        }),
      );
    return () => {
      for (const follower of followers) follower.close();
    };
  }
}
