import { dirname } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../base/clock/clock.ts";
import { ServerTls, type ServerTlsSettings } from "../../base/grpc/server-tls.ts";
import { loadCertificates, loadTlsFiles } from "../../base/grpc/tls.ts";
import { FOLLOWED, TlsFollower } from "../../base/grpc/tls-follower.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { ListenerTls } from "../proxy/listener.ts";
import type { GatewayListener, ListenerFiles } from "./listener-settings.ts";
import type { ServerTlsFiles } from "./server-tls-settings.ts";

/** A listener that accepts a new certificate while it runs. */
interface TlsListener {
  useTls(settings: ListenerTls): void;
}

/** The certificates of a gateway, for its clients and for model servers: read at the start, then followed. */
export class GatewayTls {
  /** For each listener; undefined = plain HTTP. */
  readonly listeners: readonly (ListenerTls | undefined)[];
  readonly servers: ServerTls;
  readonly #listenerFiles: readonly (ListenerFiles | undefined)[];
  readonly #serverFiles: ServerTlsFiles;
  readonly #serverSettings: ServerTlsSettings;

  /**
   * @param servers undefined = only endpoints with `scheme: https` speak TLS
   * @throws SluiceError TLS_... for files that are unreadable or have wrong contents
   */
  constructor(listeners: readonly GatewayListener[], servers: ServerTlsFiles | undefined) {
    this.#listenerFiles = listeners.map(({ tls }) => tls);
    this.listeners = this.#listenerFiles.map((files) => files && loadListener(files));
    this.#serverFiles = servers ?? {};
    this.#serverSettings = loadServers(this.#serverFiles);
    this.servers = new ServerTls(this.#serverSettings, servers !== undefined);
  }

  /** Begins to reload the files on a change; returns a function that stops it. */
  follow(listeners: readonly TlsListener[], clock: Clock, log: Logger): () => void {
    const followers: { close(): void }[] = [];
    for (const [n, files] of this.#listenerFiles.entries()) {
      const inUse = this.listeners[n];
      const listener = listeners[n];
      if (files === undefined || inUse === undefined || listener === undefined) continue;
      for (const directory of directoriesOf([files.certificate, files.key, files.clientCa]))
        followers.push(
          new TlsFollower({
            ...{ what: FOLLOWED.pair, directory, inUse, clock, log, level: "error" },
            load: () => loadListener(files),
            use: (next) => listener.useTls(next),
          }),
        );
    }
    const { ca, certificate, key } = this.#serverFiles;
    for (const directory of directoriesOf([ca, certificate, key]))
      followers.push(
        new TlsFollower({
          ...{ what: FOLLOWED.servers, directory, inUse: this.#serverSettings, clock, log, level: "error" },
          load: () => loadServers(this.#serverFiles),
          use: (next) => this.servers.use(next),
        }),
      );
    return () => {
      for (const follower of followers) follower.close();
    };
  }
}

/** The part of the options that names certificates. */
interface TlsOptions {
  readonly listeners: readonly GatewayListener[];
  readonly serverTls?: ServerTlsFiles | undefined;
}

/**
 * Reads the certificates that other options name, though they count at the next start only: whoever changes them must not hear of
 * a wrong file when the gateway does not start. Files that are in use are left out, since their follower reports their faults.
 * @throws SluiceError TLS_...
 */
export function checkOtherTls(options: TlsOptions, inUse: TlsOptions): void {
  const others = options.listeners.filter(({ tls }) => !inUse.listeners.some((one) => isDeepStrictEqual(one.tls, tls)));
  new GatewayTls(others, isDeepStrictEqual(options.serverTls, inUse.serverTls) ? undefined : options.serverTls);
}

/** The files may lie in several directories; each is watched. */
function directoriesOf(files: readonly (string | undefined)[]): ReadonlySet<string> {
  return new Set(files.filter((file) => file !== undefined).map((file) => dirname(file)));
}

function loadListener({ certificate, key, clientCa }: ListenerFiles): ListenerTls {
  const pair = loadTlsFiles(certificate, key);
  return clientCa === undefined ? pair : { ...pair, clientCa: loadCertificates(clientCa) };
}

function loadServers({ ca, serverName, certificate, key }: ServerTlsFiles): ServerTlsSettings {
  return {
    serverName,
    ca: ca === undefined ? undefined : loadCertificates(ca),
    client: certificate === undefined || key === undefined ? undefined : loadTlsFiles(certificate, key),
  };
}
