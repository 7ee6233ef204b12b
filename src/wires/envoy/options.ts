import type { InferencePool, PickerReference } from "../../pool/resources/objects.ts";

/**
 * How the picker's choice reaches the upstream connection (envoy-data-plane 2). `standalone`: a header and an ORIGINAL_DST
 * cluster. `override-host`: dynamic metadata and a known set of servers, with retries down the list. `subset-hint`: standalone,
 * and Envoy sends the picker the endpoints that it may choose. `tls`: standalone with TLS to the picker.
 */
export const VARIANTS = ["standalone", "override-host", "subset-hint", "tls"] as const;
export type Variant = (typeof VARIANTS)[number];

/** The Envoy releases that a configuration can target. They differ in the fields that they accept. */
export const ENVOY_VERSIONS = ["1.36", "1.37", "1.38", "1.39", "1.40"] as const;
export type EnvoyVersion = (typeof ENVOY_VERSIONS)[number];

export const FAILURE_MODES = ["FailOpen", "FailClose"] as const satisfies readonly PickerReference["failureMode"][];
export type FailureMode = (typeof FAILURE_MODES)[number];

/**
 * How the filter handles a request body: `full-duplex` sends it through the picker, `buffered` keeps it until the picker
 * replies.
 */
export const REQUEST_BODY_MODES = ["full-duplex", "buffered"] as const;
export type RequestBodyMode = (typeof REQUEST_BODY_MODES)[number];

export interface SocketAddress {
  /** IP literal without brackets, or a host name. */
  readonly host: string;
  /** 1..65535 */
  readonly port: number;
}

/** How Envoy checks the picker's certificate. When neither member is set, Envoy does not check it. */
export interface PickerTls {
  /** Base64 SHA-256 digests of accepted public keys (SPKI). */
  readonly pins: readonly string[];
  /** Path, on Envoy's machine, of the certificate of the authority that signed it. */
  readonly ca: string | undefined;
}

/** The inputs of a bootstrap. */
export interface BootstrapOptions {
  readonly pool: InferencePool;
  readonly variant: Variant;
  readonly envoyVersion: EnvoyVersion;
  /** Where clients connect. */
  readonly listen: SocketAddress;
  readonly admin: SocketAddress;
  /** Address of the picker, in place of the Service that the pool names. */
  readonly picker: SocketAddress | undefined;
  /** Further replicas of the picker: Envoy balances over all of them. Absent = none. */
  readonly morePickers?: readonly SocketAddress[] | undefined;
  /** Undefined = clear text, except in the variant `tls`. */
  readonly tls: PickerTls | undefined;
  /** Replaces the failure mode of the pool. */
  readonly failureMode: FailureMode | undefined;
  /** Undefined = `buffered` where that mode makes fail-open work, else `full-duplex`. */
  readonly requestBodyMode: RequestBodyMode | undefined;
  /** The model servers, for `override-host`. */
  readonly endpoints: readonly SocketAddress[];
  /** For `subset-hint`: the endpoints for every request that has no list of its own. */
  readonly subset: readonly string[];
  /** For `subset-hint`: the request header that holds the request's own list; "" = none. */
  readonly subsetHeader: string;
  /** The command that made the bootstrap, for the heading. */
  readonly command: string;
}
