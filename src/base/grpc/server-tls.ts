import { isIP, type NetConnectOpts, type Socket } from "node:net";
import { type ConnectionOptions, createSecureContext, type SecureContext, connect as tlsConnect } from "node:tls";
import type { Endpoint } from "../inference/endpoint.ts";
import { messageOf, SluiceError } from "../inference/errors.ts";

/** How Sluice speaks TLS with model servers; PEM texts. */
export interface ServerTlsSettings {
  /** The authorities of the servers' certificates; absent = those that Node.js knows. */
  readonly ca?: string | undefined;
  /** The name in the servers' certificates, also sent as SNI; absent = the host name of each endpoint. */
  readonly serverName?: string | undefined;
  /** The certificate and key that Sluice shows to the servers; absent = none. */
  readonly client?: { readonly cert: string; readonly key: string } | undefined;
}

/** Opens a socket. It emits `connect` once the server has accepted, and `secureConnect` once TLS is agreed. */
export type Connect = (options: NetConnectOpts) => Socket;

/** The code of the error of a server whose certificate or handshake is not in order. */
export const SERVER_TLS_FAILED = "SERVER_TLS_FAILED";

/** Which endpoints speak TLS, and how. The settings may change while Sluice runs; open connections stay. */
export class ServerTls {
  readonly #byDefault: boolean;
  #settings: ServerTlsSettings;
  /** Made at the first connection: the list of the system's authorities is long. */
  #context: SecureContext | undefined;

  /**
   * @param byDefault an endpoint that states no scheme speaks TLS
   * @throws Error for PEM texts that are not usable
   */
  constructor(settings: ServerTlsSettings = {}, byDefault = false) {
    this.#byDefault = byDefault;
    this.#settings = settings;
    if (settings.ca !== undefined || settings.client !== undefined) this.#context = contextOf(settings);
  }

  /** New connections use these settings. @throws Error when they are not usable; the old ones stay */
  use(settings: ServerTlsSettings): void {
    this.#context = contextOf(settings);
    this.#settings = settings;
  }

  /** Whether an endpoint speaks TLS. */
  secures({ scheme }: Pick<Endpoint, "scheme">): boolean {
    return scheme === undefined ? this.#byDefault : scheme === "https";
  }

  /** Opens sockets with TLS; the certificate of the server is always checked. */
  readonly connect: Connect = (options) => {
    const { serverName } = this.#settings;
    this.#context ??= contextOf(this.#settings);
    const { host = "localhost" } = options as { host?: string };
    const servername = serverName ?? (isIP(host) === 0 ? host : undefined);
    return tlsConnect({
      ...(options as ConnectionOptions),
      secureContext: this.#context,
      rejectUnauthorized: true,
      ALPNProtocols: ["http/1.1"],
      ...(servername === undefined ? {} : { servername }),
    });
  };
}

function contextOf({ ca, client }: ServerTlsSettings): SecureContext {
  return createSecureContext({ minVersion: "TLSv1.2", ...(ca === undefined ? {} : { ca }), ...client });
}

/** What to do about a certificate, by the code of the error of Node.js or OpenSSL. */
const ADVICE: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: "name the certificate or its authority with --server-ca",
  SELF_SIGNED_CERT_IN_CHAIN: "name the authority of the certificate with --server-ca",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "name the authority of the certificate with --server-ca",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    "name the authority of the certificate with --server-ca, or let the server send the whole chain",
  ERR_TLS_CERT_ALTNAME_INVALID: "if the certificate is right, give its host name with --server-name",
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    "give a certificate that the server accepts with --server-cert and --server-key",
  ERR_SSL_WRONG_VERSION_NUMBER: "the server does not use TLS; set its scheme to http",
};

/** The error of a connection with TLS as people understand it, with advice; other errors stay. */
export function serverTlsError(error: Error & { code?: string }): Error {
  const code = error.code ?? "";
  const advice = ADVICE[code];
  if (
    advice === undefined &&
    !/^(ERR_SSL_|ERR_TLS_|CERT_|UNABLE_TO_|DEPTH_|SELF_SIGNED_|INVALID_|HOSTNAME_)/.test(code)
  )
    return error;
  const text = code.startsWith("ERR_SSL_") ? code.slice(8).toLowerCase().replaceAll("_", " ") : messageOf(error);
  return new SluiceError(SERVER_TLS_FAILED, `TLS: ${text}${advice === undefined ? "" : `; ${advice}`}`, {
    cause: error,
  });
}
