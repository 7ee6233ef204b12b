import { dirname, resolve } from "node:path";
import { type Document, formatPosition, partOf } from "../../base/document/document.ts";
import { readDocument } from "../../base/document/read.ts";
import { validate } from "../../base/document/validate.ts";
import type { EndpointsSettings } from "../../pool/discovery/endpoints-settings.ts";
import { isUrl, type KeysSettings } from "../access/keys-settings.ts";
import { GATEWAY_KEY_NAMES, GATEWAY_KEYS, type GatewayKey, type GivenSettings, valueAt } from "./gateway-keys.ts";
import { type GatewaySettings, gatewaySettings } from "./gateway-settings.ts";
import type { ListenerSettings } from "./listener-settings.ts";
import type { ServerTlsFiles } from "./server-tls-settings.ts";

/** The largest gateway.yaml in bytes. */
export const MAX_GATEWAY_BYTES = 1024 * 1024;

/** A gateway.yaml that was read. */
export interface GatewayFile {
  readonly document: Document;
  /** The folder of the file: the base of relative paths in it. */
  readonly folder: string;
  /** With absolute paths. */
  readonly settings: GatewaySettings;
}

/**
 * Reads a gateway.yaml.
 * @throws SluiceError DOCUMENT_..., with every violation and its place
 */
export async function readGatewayFile(path: string): Promise<GatewayFile> {
  return gatewayFileOf(await readDocument(path, { maxBytes: MAX_GATEWAY_BYTES }), dirname(resolve(path)));
}

/** @throws SluiceError DOCUMENT_INVALID */
export function gatewayFileOf(document: Document, folder: string): GatewayFile {
  // An empty file is one without sections.
  const whole = document.value === null ? { ...document, value: {} } : document;
  const settings = withPaths(validate(whole, gatewaySettings, { what: "gateway file" }), folder);
  return { document, folder, settings };
}

/** The settings without a file: the defaults. */
export function defaultSettings(): GatewaySettings {
  return gatewaySettings.parse({});
}

/** The inline configuration of the picker, with its places in the file; undefined = there is none. */
export function inlineConfig({ document, settings }: GatewayFile): Document | undefined {
  return settings.picker.config === undefined ? undefined : partOf(document, ["picker", "config"]);
}

/** `file:line:column: key`, for messages. */
export function placeOf({ document }: GatewayFile, key: GatewayKey): string {
  return `${formatPosition(document.positionOf(key.split(".")))}: ${key}`;
}

/** A sentence for each key of the file that does not count, because a flag gives its value. */
export function overridden(file: GatewayFile, given: GivenSettings): string[] {
  return GATEWAY_KEY_NAMES.filter((key) => given.has(key) && valueAt(file.document.value, key) !== undefined).map(
    (key) => `${placeOf(file, key)}: ${GATEWAY_KEYS[key].flag} on the command line wins over this key`,
  );
}

/** Makes the relative paths of a section `endpoints` absolute. */
export function withEndpointPaths(endpoints: EndpointsSettings, folder: string): EndpointsSettings {
  switch (endpoints.kind) {
    case "file":
      return { ...endpoints, path: resolve(folder, endpoints.path) };
    case "slurm":
      return { ...endpoints, file: absolute(endpoints.file, folder) };
    default:
      return endpoints;
  }
}

/** Makes the relative paths of a section `listeners` absolute. */
export function withListenerPaths(listeners: ListenerSettings, folder: string): ListenerSettings {
  return listeners.map(({ address, tls }) => ({
    address,
    tls: tls && {
      certificate: resolve(folder, tls.certificate),
      key: resolve(folder, tls.key),
      clientCa: absolute(tls.clientCa, folder),
    },
  }));
}

/** Makes the relative paths of a section `keys` absolute. */
export function withKeysPaths(keys: KeysSettings, folder: string): KeysSettings {
  const jwt = keys.jwt.map((issuer) => ({
    ...issuer,
    jwks: isUrl(issuer.jwks) ? issuer.jwks : resolve(folder, issuer.jwks),
  }));
  return { ...keys, file: absolute(keys.file, folder), jwt };
}

/** Makes relative paths absolute. */
function withPaths(settings: GatewaySettings, folder: string): GatewaySettings {
  const { listeners, keys, limits, servers, peers, endpoints, picker, resources, batch, log } = settings;
  const { file } = log.requests;
  return {
    ...settings,
    listeners: withListenerPaths(listeners, folder),
    keys: withKeysPaths(keys, folder),
    limits: { ...withTlsPaths(limits, folder), file: absolute(limits.file, folder) },
    servers: { tls: servers.tls && withTlsPaths(servers.tls, folder) },
    peers: withTlsPaths(peers, folder),
    endpoints: endpoints && withEndpointPaths(endpoints, folder),
    picker: { ...picker, configFile: absolute(picker.configFile, folder) },
    resources: { ...resources, folder: absolute(resources.folder, folder) },
    batch: {
      ...withTlsPaths(batch, folder),
      folder: absolute(batch.folder, folder),
      spool: absolute(batch.spool, folder),
      files: batch.files?.startsWith("s3://") ? batch.files : absolute(batch.files, folder),
      webhookSecretFile: absolute(batch.webhookSecretFile, folder),
    },
    log: { ...log, requests: { ...log.requests, file: file === "-" ? file : resolve(folder, file) } },
  };
}

/** Makes the relative paths of certificates absolute: those for model servers, or for a Redis. */
export function withTlsPaths<S extends Pick<ServerTlsFiles, "ca" | "certificate" | "key">>(
  section: S,
  folder: string,
): S {
  const { ca, certificate, key } = section;
  return {
    ...section,
    ca: absolute(ca, folder),
    certificate: absolute(certificate, folder),
    key: absolute(key, folder),
  };
}

function absolute(path: string | undefined, folder: string): string | undefined {
  return path === undefined ? undefined : resolve(folder, path);
}
