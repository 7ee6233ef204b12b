import { hostPort } from "../../base/inference/endpoint.ts";
import { HEADER } from "../../base/inference/headers.ts";
import type { BootstrapPlan } from "./plan.ts";
import { commented, type Tree } from "./tree.ts";
import { typed } from "./typed.ts";

/** Namespaces of the metadata between proxy and picker (epp-protocol 6 to 8). */
const NAMESPACE = "envoy.lb";
const HINT_NAMESPACE = "envoy.lb.subset_hint";

/** Response header that carries the address of the served endpoint from the router to `header_to_metadata`. */
const UPSTREAM_ADDRESS = "x-upstream-address";

/** The HTTP filters, in the order in which a request meets them; a response meets them in reverse. */
export function httpFilters(plan: BootstrapPlan): Tree {
  const filters: Tree[] = [];
  if (plan.subset.length > 0) filters.push(constantHint(plan));
  if (plan.variant === "subset-hint" && plan.subsetHeader !== "") filters.push(headerHint(plan));
  filters.push(extProc(plan));
  if (plan.servedReport === "header") filters.push(servedFromHeader());
  filters.push({
    name: "envoy.filters.http.router",
    typed_config: typed("extensions.filters.http.router.v3.Router", { suppress_envoy_headers: true }),
  });
  return filters;
}

/** What a route has to add for the served report, where that needs a header. */
export function servedHeader(plan: BootstrapPlan): Tree | undefined {
  if (plan.servedReport !== "header") return undefined;
  return commented("The router adds it before the filters see the response; header_to_metadata takes it away again.", [
    {
      header: { key: UPSTREAM_ADDRESS, value: "%UPSTREAM_REMOTE_ADDRESS%" },
      append_action: "OVERWRITE_IF_EXISTS_OR_ADD",
    },
  ]);
}

function extProc(plan: BootstrapPlan): Tree {
  const duplex = plan.requestBodyMode === "full-duplex";
  return {
    name: "envoy.filters.http.ext_proc",
    typed_config: typed("extensions.filters.http.ext_proc.v3.ExternalProcessor", {
      grpc_service: {
        envoy_grpc: { cluster_name: "epp", authority: hostPort(plan.picker.host, plan.picker.port) },
        retry_policy: commented("Survives a GOAWAY of the picker; the cluster's max_retries must allow it.", {
          num_retries: 3,
          retry_on: "refused-stream,connect-failure,reset-before-request",
          retry_back_off: { base_interval: "0.01s", max_interval: "0.1s" },
        }),
      },
      failure_mode_allow: commented(failureModeReason(plan), plan.failOpen),
      status_on_error: { code: "ServiceUnavailable" },
      message_timeout: duplex
        ? commented("No timer runs while the body mode is FULL_DUPLEX_STREAMED.", "300s")
        : commented(
            "How long the picker may hold a request back; it may ask for more once, up to the maximum.",
            "120s",
          ),
      max_message_timeout: duplex ? undefined : "600s",
      processing_mode: {
        request_header_mode: "SEND",
        request_body_mode: duplex
          ? "FULL_DUPLEX_STREAMED"
          : commented(
              "Envoy keeps the body, so that it is still there when the picker fails and for every retry.",
              "BUFFERED",
            ),
        request_trailer_mode: duplex ? commented("The duplex body mode demands it.", "SEND") : undefined,
        response_header_mode: "SEND",
        response_body_mode: "FULL_DUPLEX_STREAMED",
        response_trailer_mode: "SEND",
      },
      metadata_options: {
        receiving_namespaces: { untyped: [NAMESPACE] },
        forwarding_namespaces: { untyped: [NAMESPACE, HINT_NAMESPACE] },
      },
      response_attributes:
        plan.servedReport === "attribute" ? commented("Tells the picker who served.", ["upstream.address"]) : undefined,
    }),
  };
}

function failureModeReason({ failOpen, requestBodyMode, variant }: BootstrapPlan): string {
  if (variant !== "override-host")
    return "Fail-closed whatever the pool says: only the picker knows an address, so there is nothing to fail open to.";
  if (!failOpen) return "FailClose: without the picker a request ends with status_on_error.";
  const until =
    requestBodyMode === "full-duplex"
      ? "A request with a body that reaches a failing picker ends with status_on_error all the same; outlier detection and health check of the cluster epp bound that time."
      : "Replies out of order and failures in the response phase are not covered.";
  return `FailOpen: without a picker the fallback policy chooses. ${until}`;
}

function constantHint(plan: BootstrapPlan): Tree {
  return commented("Which endpoints the picker may choose from.", {
    name: "envoy.filters.http.set_metadata",
    typed_config: typed("extensions.filters.http.set_metadata.v3.Config", {
      metadata: [
        {
          metadata_namespace: HINT_NAMESPACE,
          allow_overwrite: true,
          value: { [HEADER.destinationSubset]: plan.subset },
        },
      ],
    }),
  });
}

function headerHint({ subsetHeader, subset }: BootstrapPlan): Tree {
  const instead = subset.length > 0 ? " It replaces the constant one." : "";
  const why = `The same from a request header, a comma-separated list.${instead} Whoever may send the header chooses among the endpoints: strip it from clients that may not.`;
  const script = [
    "function envoy_on_request(handle)",
    `  local given = handle:headers():get("${subsetHeader}")`,
    "  if given == nil then return end",
    `  handle:headers():remove("${subsetHeader}")`,
    "  local allowed = {}",
    '  for endpoint in given:gmatch("[^,%s]+") do allowed[#allowed + 1] = endpoint end',
    "  local metadata = handle:streamInfo():dynamicMetadata()",
    "  -- An empty table would not arrive as a list; a list without an endpoint allows none.",
    '  if #allowed == 0 then allowed = { "none" } end',
    `  metadata:set("${HINT_NAMESPACE}", "${HEADER.destinationSubset}", allowed)`,
    "end",
    "",
  ];
  return commented(why, {
    name: "envoy.filters.http.lua",
    typed_config: typed("extensions.filters.http.lua.v3.Lua", {
      default_source_code: { inline_string: script.join("\n") },
    }),
  });
}

function servedFromHeader(): Tree {
  return commented("Responses meet the filters in reverse: this one runs before ext_proc.", {
    name: "envoy.filters.http.header_to_metadata",
    typed_config: typed("extensions.filters.http.header_to_metadata.v3.Config", {
      response_rules: [
        {
          header: UPSTREAM_ADDRESS,
          on_header_present: { metadata_namespace: NAMESPACE, key: HEADER.destinationServed, type: "STRING" },
          remove: true,
        },
      ],
    }),
  });
}
