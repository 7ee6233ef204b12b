import type { Routed } from "../../picker/exchange/wire.ts";
import type { Struct, StructValue } from "./messages.ts";
import type { WireOptions } from "./wire-options.ts";

/** Where v0.3's text puts the one endpoint to fall back to (epp-protocol 7.2). */
const FALLBACK_KEY = "x-gateway-destination-endpoint-fallback";

/** Where the scores of all endpoints go (epp-protocol 3.6). */
const SCORES_KEY = "x-gateway-destination-endpoint-scores";

type Entries = { [key: string]: StructValue };

/** The value of the destination: one endpoint, or what the picker offers, primary first, comma-separated (epp-protocol 7). */
export function destinationOf({ endpoints, offered }: Routed, { fallbackMode }: WireOptions): string {
  let text = endpoints[0]!.hostPort;
  if (fallbackMode !== "list") return text;
  for (let i = 1; i < offered && i < endpoints.length; i++) text += `,${endpoints[i]!.hostPort}`;
  return text;
}

/**
 * The dynamic metadata of a routed request: what plugins add, by namespace, and in the destination's namespace our own
 * entries, which no plugin can replace. Source: epp-protocol 3.6, E-40, E-44, E-46 to E-48.
 */
export function routeMetadata(routed: Routed, destination: string, options: WireOptions): Struct {
  const { destinationKey: key, destinationNamespace: namespace } = options;
  const own: Entries = { [key]: destination };
  const fallback = options.fallbackMode === "legacy-key" && routed.offered > 1 ? routed.endpoints[1] : undefined;
  if (fallback !== undefined) own[FALLBACK_KEY] = fallback.hostPort;
  if (routed.scores !== undefined) own[SCORES_KEY] = routed.scores;
  const { metadata } = routed;
  if (metadata === undefined) return namespace === "" ? own : { [namespace]: own };
  return namespace === "" ? { ...metadata, ...own } : { ...metadata, [namespace]: { ...metadata[namespace], ...own } };
}
