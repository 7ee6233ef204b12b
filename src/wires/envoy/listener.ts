import { hostPort } from "../../base/inference/endpoint.ts";
import { HEADER } from "../../base/inference/headers.ts";
import type { BootstrapPlan } from "./plan.ts";
import { address, commented, type Tree, typed } from "./tree.ts";

/** Bytes of a whole request body that Envoy may hold: as many as the picker takes (`maxRequestBodyBytes`). */
const WHOLE_BODY = 32 << 20;
const SOME_CHUNKS = 1 << 20;

/** Retries after the first attempt. The picker should list as many further endpoints. */
export const MAX_RETRIES = 2;

/** A model server may be silent for long: a model that thinks sends nothing. */
const IDLE = "3600s";

/** Only the picker and the proxy write these (epp-protocol 7, 8, 10.8). */
const WRITTEN_BY_THE_PICKER = [
  HEADER.destination,
  HEADER.destinationServed,
  HEADER.destinationSubset,
  "x-prefiller-host-port",
  "x-encoder-hosts-ports",
];

/** The listener: one HTTP connection manager with one route for everything. */
export function listener(plan: BootstrapPlan): Tree {
  const keepsBodies = plan.requestBodyMode === "buffered" || plan.variant === "override-host";
  return {
    name: "inference",
    address: address(plan.listen),
    per_connection_buffer_limit_bytes: keepsBodies
      ? commented("The largest prompt that Envoy keeps; a larger one gets 413, or has no retries.", WHOLE_BODY)
      : SOME_CHUNKS,
    filter_chains: [{ filters: [connectionManager(plan)] }],
  };
}

function connectionManager(plan: BootstrapPlan): Tree {
  return {
    name: "envoy.filters.network.http_connection_manager",
    typed_config: typed("extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", {
      stat_prefix: "inference",
      use_remote_address: true,
      always_set_request_id_in_response: commented("The picker explains decisions by this id.", true),
      normalize_path: true,
      merge_slashes: true,
      path_with_escaped_slashes_action: "REJECT_REQUEST",
      stream_idle_timeout: IDLE,
      request_headers_timeout: "30s",
      common_http_protocol_options: { idle_timeout: IDLE, headers_with_underscores_action: "REJECT_REQUEST" },
      early_header_mutation_extensions: commented(
        "A client must never choose its own endpoint: without this, Envoy is an open relay while no picker runs.",
        [
          {
            name: "strip-picker-headers",
            typed_config: typed("extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation", {
              mutations: WRITTEN_BY_THE_PICKER.map((remove) => ({ remove })),
            }),
          },
        ],
      ),
      route_config: {
        virtual_hosts: [
          {
            name: "any",
            domains: ["*"],
            routes: [{ match: { prefix: "/" }, route: route(plan), response_headers_to_add: servedHeader(plan) }],
          },
        ],
      },
      http_filters: httpFilters(plan),
    }),
  };
}

/** How often a retry may draw a host again. Policies draw by chance, so they may draw one that was already tried. */
const HOST_DRAWS = 30;

/** A retry goes to no host that was tried before, while there is another one. */
function previousHosts(): Tree {
  return [
    {
      name: "envoy.retry_host_predicates.previous_hosts",
      typed_config: typed("extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"),
    },
  ];
}

function route({ variant }: BootstrapPlan): Tree {
  const always = { timeout: commented("No limit: answers may take long.", "0s"), idle_timeout: IDLE };
  if (variant !== "override-host") return { cluster: "picked_endpoint", ...always };
  return {
    cluster: "model_servers",
    ...always,
    retry_policy: commented("Each retry goes to the next endpoint of the picker's list.", {
      retry_on: "connect-failure,refused-stream,retriable-status-codes",
      retriable_status_codes: commented("Add 429 only for servers that send it before they begin to work.", [503]),
      num_retries: MAX_RETRIES,
      retry_back_off: { base_interval: "0.025s", max_interval: "0.25s" },
      retry_host_predicate: commented("Applies only to choices of the fallback policy.", previousHosts()),
      host_selection_retry_max_attempts: commented(
        "Tries to find a server that has not failed yet. With two of three servers dead, five tries found none in 9 of 100 requests.",
        HOST_DRAWS,
      ),
    }),
  };
}

/** Namespaces of the metadata between proxy and picker (epp-protocol 6 to 8). */
const NAMESPACE = "envoy.lb";
const HINT_NAMESPACE = "envoy.lb.subset_hint";

/** Response header that carries the address of the endpoint that served from the router to `header_to_metadata`. */
const UPSTREAM_ADDRESS = "x-upstream-address";

/** The HTTP filters, in the order in which a request meets them; a response meets them in reverse. */
function httpFilters(plan: BootstrapPlan): Tree {
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

/** The header that a route adds for the served report, when the report needs a header. */
function servedHeader(plan: BootstrapPlan): Tree | undefined {
  if (plan.servedReport !== "header") return undefined;
  return commented("The router adds this header before the filters see the response; header_to_metadata removes it.", [
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
        retry_policy: commented(
          "Retries after a GOAWAY, and after the death of a picker that has not answered yet; the cluster's max_retries must allow this.",
          {
            num_retries: 3,
            retry_on: "refused-stream,connect-failure,reset",
            retry_back_off: { base_interval: "0.01s", max_interval: "0.1s" },
            retry_host_predicate: commented(
              "Asks another picker. Without this, a retry asks the picker that has just died, which has the fewest requests.",
              previousHosts(),
            ),
            host_selection_retry_max_attempts: HOST_DRAWS,
          },
        ),
      },
      failure_mode_allow: commented(failureModeReason(plan), plan.failOpen),
      status_on_error: { code: "ServiceUnavailable" },
      message_timeout: duplex
        ? commented("No timer runs while the body mode is FULL_DUPLEX_STREAMED.", "300s")
        : commented(
            "How long the picker may hold a request; it may ask once for more time, up to the maximum.",
            "120s",
          ),
      max_message_timeout: duplex ? undefined : "600s",
      processing_mode: {
        request_header_mode: "SEND",
        request_body_mode: duplex
          ? "FULL_DUPLEX_STREAMED"
          : commented("Envoy keeps the body for retries, and for the case that the picker fails.", "BUFFERED"),
        request_trailer_mode: duplex ? commented("The duplex body mode needs this.", "SEND") : undefined,
        response_header_mode: "SEND",
        response_body_mode: "FULL_DUPLEX_STREAMED",
        response_trailer_mode: "SEND",
      },
      metadata_options: {
        receiving_namespaces: { untyped: [NAMESPACE] },
        forwarding_namespaces: { untyped: [NAMESPACE, HINT_NAMESPACE] },
      },
      response_attributes:
        plan.servedReport === "attribute"
          ? commented("Tells the picker which endpoint served the request.", ["upstream.address"])
          : undefined,
    }),
  };
}

function failureModeReason({ failOpen, requestBodyMode, variant }: BootstrapPlan): string {
  if (variant !== "override-host")
    return "Fails closed in every pool: without the picker, Envoy has no address of a model server.";
  if (!failOpen) return "FailClose: without the picker a request ends with status_on_error.";
  const until =
    requestBodyMode === "full-duplex"
      ? "A request with a body that reaches a failing picker ends with status_on_error; outlier detection and health check of the cluster epp limit the time of such failures."
      : "Replies out of order and failures in the response phase still end the request.";
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
  const instead = subset.length > 0 ? " It replaces the constant hint." : "";
  const why = `A request header lists the endpoints that the picker may choose from.${instead} A client that sends the header chooses among these: strip it from clients without that right.`;
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
  return commented("A response passes the filters from last to first, so it reaches this filter before ext_proc.", {
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
