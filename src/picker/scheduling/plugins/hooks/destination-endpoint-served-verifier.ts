import { HEADER } from "../../../../base/inference/headers.ts";
import { defineRequestHook } from "../../../../base/plugin/define.ts";

/** Where the conformance suite looks; it compares the value exactly. */
const RESULT_HEADER = "x-conformance-test-served-endpoint";

/** Of the conformance suite (epp-protocol 8, E-75): it alone tells whether a proxy reports who served. */
export const destinationEndpointServedVerifier = defineRequestHook({
  type: "destination-endpoint-served-verifier",
  describe:
    "For conformance tests: copies the endpoint that the proxy reports as the one that served into the response header `x-conformance-test-served-endpoint`.",
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
