import { isIP } from "node:net";
import { oneLine, SluiceError } from "../../base/inference/errors.ts";
import { GROUP, type InferencePool } from "../../pool/resources/objects.ts";
import { effectivePort } from "../../pool/resources/pool-mapping.ts";
import type { BootstrapOptions, PickerTls, SocketAddress } from "./options.ts";

/** A bootstrap with every decision made; the renderer only writes it down. */
export interface BootstrapPlan extends BootstrapOptions {
  readonly picker: SocketAddress;
  readonly tls: PickerTls | undefined;
  readonly failOpen: boolean;
  readonly requestBodyMode: "full-duplex" | "buffered";
  /** The model servers speak HTTP/2 without TLS. */
  readonly h2c: boolean;
  /** How the picker learns which endpoint served (envoy-data-plane 2.4). */
  readonly servedReport: "selected-host" | "attribute" | "header";
  /** The settings of the pool that Envoy cannot follow, in sentences. */
  readonly warnings: readonly string[];
}

/**
 * Decides what the options leave open (envoy-data-plane 1.6, 2; V-1, V-5, V-6).
 * @throws SluiceError ENVOY_PICKER when the pool names no picker that can be dialled, ENVOY_ENDPOINTS when the known set
 *   is missing or holds host names, FLAG_VALUE when options contradict each other
 */
export function planBootstrap(options: BootstrapOptions): BootstrapPlan {
  const { variant, pool } = options;
  refuseContradictions(options);
  const picker = options.picker ?? serviceOf(pool);
  const wanted = (options.failureMode ?? pool.picker?.failureMode ?? "FailClose") === "FailOpen";
  const failOpen = wanted && variant === "override-host";
  const requestBodyMode = options.requestBodyMode ?? (failOpen ? "buffered" : "full-duplex");
  const warnings: string[] = [];
  if (wanted && !failOpen)
    warnings.push(
      `pool ${pool.meta.name} asks for FailOpen, but the variant ${variant} fails closed: without a picker, Envoy knows no server; use override-host`,
    );
  if (failOpen && requestBodyMode === "full-duplex")
    warnings.push(
      "with full-duplex bodies, the requests that a failing picker holds fail; Envoy fails open only after the health check reports the picker as down",
    );
  return {
    ...options,
    picker,
    tls: options.tls ?? (variant === "tls" ? { pins: [], ca: undefined } : undefined),
    failOpen,
    requestBodyMode,
    h2c: pool.appProtocol === "kubernetes.io/h2c",
    servedReport: servedReport(options),
    warnings,
  };
}

/** Releases before 1.38 reject `selected_host_key` at load time. The attribute works with every release and cluster. */
function servedReport({ variant, envoyVersion }: BootstrapOptions): BootstrapPlan["servedReport"] {
  if (variant === "subset-hint") return "header";
  return variant === "override-host" && envoyVersion >= "1.38" ? "selected-host" : "attribute";
}

function serviceOf(pool: InferencePool): SocketAddress {
  const { meta, picker } = pool;
  const field = pool.group === GROUP.experimental ? "extensionRef" : "endpointPickerRef";
  const says = (what: string): SluiceError =>
    new SluiceError(
      "ENVOY_PICKER",
      `InferencePool ${meta.namespace}/${meta.name}: ${what}, or give --picker host:port`,
    );
  if (picker === undefined) throw says(`it has no ${field}: name the picker's Service there`);
  if (picker.group !== "" || picker.kind !== "Service")
    throw says(
      `${field} names a ${picker.kind} of group "${picker.group}"; Envoy can connect only to a Service of the core group`,
    );
  // Only v1alpha2 leaves the port of a Service open.
  const port = pool.group === GROUP.experimental ? effectivePort(picker) : picker.port;
  if (port === undefined) throw says(`${field} has no port: set ${field}.port.number`);
  return { host: `${picker.name}.${meta.namespace}.svc`, port };
}

function refuseContradictions(options: BootstrapOptions): void {
  const { variant, endpoints, subset, subsetHeader, tls } = options;
  if (variant === "override-host") refuseUnusableHosts(endpoints);
  else if (endpoints.length > 0) throw optionError(`--endpoints is for the variant override-host, not for ${variant}`);
  if (variant !== "subset-hint" && subset.length > 0)
    throw optionError(`--subset is for the variant subset-hint, not for ${variant}`);
  if (variant === "subset-hint" && subset.length === 0 && subsetHeader === "")
    throw optionError("the variant subset-hint needs --subset, --subset-header or both");
  const stray = subset.find((endpoint) => !isEndpoint(endpoint));
  if (stray !== undefined)
    throw optionError(`--subset holds "${stray}"; write ip:port or [ipv6]:port, with commas between them`);
  if (!/^([a-z0-9][a-z0-9-]{0,127})?$/.test(subsetHeader))
    throw optionError(`--subset-header "${subsetHeader}" is not a header name of small letters, digits and hyphens`);
  const pin = tls?.pins.find((one) => !/^[A-Za-z0-9+/]{43}=$/.test(one));
  if (pin !== undefined)
    throw optionError(`--pin "${pin}" is not the base64 SHA-256 of a public key: 44 characters, the last one =`);
}

function refuseUnusableHosts(endpoints: readonly SocketAddress[]): void {
  if (endpoints.length === 0)
    throw new SluiceError(
      "ENVOY_ENDPOINTS",
      "the variant override-host needs the model servers: give --endpoints FILE with at least one",
    );
  const named = endpoints.find(({ host }) => isIP(host) === 0);
  if (named !== undefined)
    throw new SluiceError(
      "ENVOY_ENDPOINTS",
      `the endpoint ${named.host}:${named.port} is a host name; Envoy finds the picked endpoint by its IP address, so list IP addresses`,
    );
}

function optionError(message: string): SluiceError {
  return new SluiceError("FLAG_VALUE", oneLine(message));
}

/** As the picker reads hints (epp-protocol 6.3): with a port or without. */
function isEndpoint(text: string): boolean {
  const [, v6, v4, port] = /^(?:\[([^\]]*)\]|([\d.]*))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const host = v6 !== undefined ? isIP(v6) === 6 : isIP(v4 ?? "") === 4;
  return (host && (port === undefined || (Number(port) >= 1 && Number(port) <= 65535))) || isIP(text) === 6;
}
