import { HEADER } from "../../../base/inference/headers.ts";
import { defineFilter, defineRequestHook } from "../../../base/plugin/define.ts";
import type { Candidates, Filter, FilterContext } from "../../../base/plugin/kinds.ts";

const SELECTION_HEADER = "test-epp-endpoint-selection";

/** The most entries of the header; further ones are ignored. The conformance suite sends six. */
const MAX_ENTRIES = 256;

/**
 * For the conformance suite (epp-protocol 8, api-resources 5.3). The order of the header decides which endpoint of an address
 * counts. The picker chooses among the remaining endpoints, as the reference's pickers do.
 */
export const headerBasedTestingFilter = defineFilter({
  type: "header-based-testing-filter",
  describe:
    "For conformance tests: keeps the endpoints that the request header `test-epp-endpoint-selection` lists (`ip` or `ip:port`), one per address. Without the header, it keeps none.",
  headers: () => [SELECTION_HEADER],
  create: (): Filter => ({
    filter({ request, candidates, keep }: FilterContext) {
      const header = request.headers.get(SELECTION_HEADER) ?? "";
      keep.fill(0, 0, candidates.count);
      const taken = new Set<string>();
      for (const entry of header.split(",", MAX_ENTRIES)) {
        const { address, port } = entryOf(entry.trim());
        if (address === "" || taken.has(address)) continue;
        const at = find(candidates, address, port);
        if (at < 0) continue;
        taken.add(address);
        keep[at] = 1;
      }
    },
  }),
});

/** Returns the first candidate at an address; at any port when none is given. */
function find({ endpoints, count }: Candidates, address: string, port: number | undefined): number {
  for (let i = 0; i < count; i++) {
    const endpoint = endpoints[i]!;
    if ((port === undefined || endpoint.port === port) && canonical(endpoint.address) === address) return i;
  }
  return -1;
}

/** Splits `v4`, `v4:port`, `v6`, `[v6]` and `[v6]:port`. */
function entryOf(text: string): { readonly address: string; readonly port: number | undefined } {
  const [, bracketed, plain, port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d{1,5}))?$/.exec(text) ?? [
    undefined,
    undefined,
    text,
  ];
  return { address: canonical(bracketed ?? plain ?? ""), port: port === undefined ? undefined : Number(port) };
}

/** Returns one spelling for each IPv6 address: the spelling of the URL parser. */
function canonical(address: string): string {
  if (!address.includes(":")) return address;
  return URL.parse(`http://[${address}]`)?.hostname.slice(1, -1) ?? address;
}

/** The header that the conformance suite reads; it compares the value exactly. */
const RESULT_HEADER = "x-conformance-test-served-endpoint";

/** For the conformance suite (epp-protocol 8, E-75). Only this hook shows whether a proxy reports the endpoint that served. */
export const destinationEndpointServedVerifier = defineRequestHook({
  type: "destination-endpoint-served-verifier",
  describe:
    "For conformance tests: writes the endpoint that served, as the proxy reports it, into the response header `x-conformance-test-served-endpoint`.",
  create: () => ({
    responseReceived(context) {
      context.setHeader(RESULT_HEADER, verdict(context.metadata));
    },
  }),
});

function verdict(metadata: Readonly<Record<string, unknown>> | undefined): string {
  if (metadata === undefined) return "fail: missing envoy lb metadata";
  const served = metadata[HEADER.destinationServed];
  return typeof served === "string" ? served : "fail: missing destination endpoint served metadata";
}
