import type { Routed } from "../../picker/exchange/wire.ts";
import type { EncodedStruct, Struct, StructValue } from "./messages.ts";
import { encodedStruct } from "./metadata.ts";
import type { WireOptions } from "./wire-options.ts";

/** The key that v0.3 specifies for the one fallback endpoint (epp-protocol 7.2). */
const FALLBACK_KEY = "x-gateway-destination-endpoint-fallback";

/** The key for the scores of all endpoints (epp-protocol 3.6). */
const SCORES_KEY = "x-gateway-destination-endpoint-scores";

/** Destinations whose metadata are kept; about as many as a pool has endpoints. */
const MAX_KEPT = 4096;

type Entries = { [key: string]: StructValue };

/**
 * The dynamic metadata of routed requests: the entries of plugins, by namespace, and Sluice's entries in the namespace of the
 * destination. No plugin can replace Sluice's entries. Source: epp-protocol 3.6, E-40, E-44, E-46 to E-48.
 *
 * Most requests have one destination and nothing else. Those metadata are encoded once for each destination.
 */
export class RouteMetadata {
  readonly #options: WireOptions;
  readonly #plain = new Map<string, EncodedStruct>();

  constructor(options: WireOptions) {
    this.#options = options;
  }

  /** @param destination the value of the destination */
  of(routed: Routed, destination: string): Struct | EncodedStruct {
    const { destinationKey: key, fallbackMode } = this.#options;
    if (routed.offered > 1 || routed.scores !== undefined || routed.metadata !== undefined) {
      const own: Entries = { [key]: destination };
      const fallback = fallbackMode === "legacy-key" && routed.offered > 1 ? routed.endpoints[1] : undefined;
      if (fallback !== undefined) own[FALLBACK_KEY] = fallback.hostPort;
      if (routed.scores !== undefined) own[SCORES_KEY] = routed.scores;
      return this.#merged(own, routed.metadata);
    }
    const known = this.#plain.get(destination);
    if (known !== undefined) return known;
    if (this.#plain.size >= MAX_KEPT) this.#plain.clear();
    const plain = encodedStruct(this.#merged({ [key]: destination }, undefined));
    this.#plain.set(destination, plain);
    return plain;
  }

  #merged(own: Entries, metadata: Routed["metadata"]): Struct {
    const { destinationNamespace: namespace } = this.#options;
    if (metadata === undefined) return namespace === "" ? own : { [namespace]: own };
    return namespace === ""
      ? { ...metadata, ...own }
      : { ...metadata, [namespace]: { ...metadata[namespace], ...own } };
  }
}
