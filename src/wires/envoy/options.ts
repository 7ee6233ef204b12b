import type { InferencePool, PickerReference } from "../../pool/resources/objects.ts";

/**
 * How the pick reaches the upstream connection (envoy-data-plane 2): `standalone` = a header and an ORIGINAL_DST cluster,
 * `override-host` = dynamic metadata and a known set of servers with retries down the list, `subset-hint` = standalone
 * that tells the picker which endpoints it may choose, `tls` = standalone with TLS to the picker.
 */
export const VARIANTS = ["standalone", "override-host", "subset-hint", "tls"] as const;
export type Variant = (typeof VARIANTS)[number];

/** Releases that a configuration can be written for; they differ in the fields they know. */
export const ENVOY_VERSIONS = ["1.36", "1.37", "1.38", "1.39", "1.40"] as const;
export type EnvoyVersion = (typeof ENVOY_VERSIONS)[number];

export const FAILURE_MODES = ["FailOpen", "FailClose"] as const satisfies readonly PickerReference["failureMode"][];
export type FailureMode = (typeof FAILURE_MODES)[number];

/** What the filter does with a request body: `full-duplex` passes it through the picker, `buffered` keeps it meanwhile. */
export const REQUEST_BODY_MODES = ["full-duplex", "buffered"] as const;
export type RequestBodyMode = (typeof REQUEST_BODY_MODES)[number];

export interface SocketAddress {
  /** IP literal without brackets, or a host name. */
  readonly host: string;
  /** 1..65535 */
  readonly port: number;
}

/** How the picker's certificate is checked: with neither member, not at all. */
export interface PickerTls {
  /** Base64 SHA-256 digests of accepted public keys (SPKI). */
  readonly pins: readonly string[];
  /** Path, on Envoy's machine, of the authority that signed it. */
  readonly ca: string | undefined;
}

/** What a bootstrap is made from. */
export interface BootstrapOptions {
  readonly pool: InferencePool;
  readonly variant: Variant;
  readonly envoyVersion: EnvoyVersion;
  /** Where clients connect. */
  readonly listen: SocketAddress;
  readonly admin: SocketAddress;
  /** Where the picker is, instead of the Service that the pool names. */
  readonly picker: SocketAddress | undefined;
  /** Undefined = clear text, except in the variant `tls`. */
  readonly tls: PickerTls | undefined;
  /** Instead of the pool's. */
  readonly failureMode: FailureMode | undefined;
  /** Undefined = `buffered` where it makes fail-open work, else `full-duplex`. */
  readonly requestBodyMode: RequestBodyMode | undefined;
  /** The model servers, for `override-host`. */
  readonly endpoints: readonly SocketAddress[];
  /** For `subset-hint`: the endpoints of every request that brings no list of its own. */
  readonly subset: readonly string[];
  /** For `subset-hint`: the request header with a list of its own; "" = none. */
  readonly subsetHeader: string;
  /** The command that made it, for the heading. */
  readonly command: string;
}
