import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";
import { parseListenAddress } from "../../base/inference/listen-address.ts";
import type { GatewayConnections } from "../../wires/gateway/gateway-options.ts";
import type { ListenerFiles } from "../../wires/gateway/listener-settings.ts";
import { originOf } from "../../wires/gateway/origin.ts";
import type { ServerTlsFiles } from "../../wires/gateway/server-tls-settings.ts";
import { collect, wholeNumber } from "../common/command.ts";

/** The flags for connections of clients and to model servers. */
export interface ConnectionOptions {
  /** A gateway.yaml, which may have the other half of two values that belong together. */
  readonly config?: string;
  readonly listen: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly clientCa?: string;
  readonly serverTls: boolean;
  readonly serverCa?: string;
  readonly serverName?: string;
  readonly serverCert?: string;
  readonly serverKey?: string;
  readonly corsOrigin: readonly string[];
  readonly maxConnections: string;
  readonly maxConnectionsPerAddress?: string;
}

/** The most connections of clients. */
const MOST_CONNECTIONS = 1_000_000;

/** Adds the options for connections of clients and to model servers. */
export function withConnectionOptions(command: Command): Command {
  return command
    .option("--listen <address>", "address for clients", "127.0.0.1:8080")
    .option("--tls-cert <file>", "PEM file of the certificate for TLS (HTTP/2 and HTTP/1.1); watched for changes")
    .option("--tls-key <file>", "PEM file of the key of --tls-cert; watched for changes")
    .option("--client-ca <file>", "accept only clients with a certificate of these CAs (PEM file); watched for changes")
    .option(
      "--server-tls",
      "use TLS for endpoints that name no scheme; the other --server flags turn this on, too",
      false,
    )
    .option(
      "--server-ca <file>",
      "PEM file of CA certificates that Sluice trusts for model servers; watched for changes",
    )
    .option("--server-name <name>", "the name in the model servers' certificates, also sent as SNI")
    .option("--server-cert <file>", "PEM file of the client certificate for model servers; watched for changes")
    .option("--server-key <file>", "PEM file of the key of --server-cert; watched for changes")
    .option("--cors-origin <origin>", "let pages of this origin use the gateway, * = all; repeatable", collect, [])
    .option("--max-connections <number>", "the most open client connections", "10000")
    .option(
      "--max-connections-per-address <number>",
      "the most client connections of one address; default: half of --max-connections",
    );
}

/** @throws SluiceError FLAG_VALUE, FLAG_CONFLICT */
export function connectionsFrom(flags: ConnectionOptions): GatewayConnections {
  const connections = wholeNumber(flags.maxConnections, "--max-connections", 4, MOST_CONNECTIONS);
  const { maxConnectionsPerAddress: perAddress } = flags;
  const most = flags.config === undefined ? connections : MOST_CONNECTIONS;
  return {
    listeners: [{ ...parseListenAddress(flags.listen, "--listen"), tls: listenerTls(flags) }],
    serverTls: serverTls(flags),
    cors: flags.corsOrigin.length === 0 ? undefined : { origins: flags.corsOrigin.map(origin) },
    clients: {
      connections,
      connectionsPerAddress:
        perAddress === undefined ? undefined : wholeNumber(perAddress, "--max-connections-per-address", 1, most),
    },
  };
}

function listenerTls({ tlsCert, tlsKey, clientCa }: ConnectionOptions): ListenerFiles | undefined {
  together("--tls-cert", tlsCert, "--tls-key", tlsKey);
  if (tlsCert !== undefined && tlsKey !== undefined) return { certificate: tlsCert, key: tlsKey, clientCa };
  if (clientCa !== undefined)
    throw new SluiceError("FLAG_CONFLICT", "--client-ca needs TLS: give --tls-cert and --tls-key, too");
  return undefined;
}

function serverTls(flags: ConnectionOptions): ServerTlsFiles | undefined {
  const { serverCa: ca, serverName, serverCert: certificate, serverKey: key } = flags;
  together("--server-cert", certificate, "--server-key", key);
  const given = [ca, serverName, certificate].some((value) => value !== undefined);
  return given || flags.serverTls ? { ca, serverName, certificate, key } : undefined;
}

function together(one: string, a: string | undefined, other: string, b: string | undefined): void {
  if ((a === undefined) === (b === undefined)) return;
  throw new SluiceError("FLAG_CONFLICT", `${a === undefined ? other : one} needs ${a === undefined ? one : other}`);
}

function origin(text: string): string {
  const found = originOf(text);
  if (found !== undefined) return found;
  throw new SluiceError(
    "FLAG_VALUE",
    `--cors-origin "${text}" is not an origin; write * or an origin such as https://chat.example:8443`,
  );
}
