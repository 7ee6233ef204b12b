import { HEADER } from "../../base/inference/headers.ts";
import { httpFilters, servedHeader } from "./filters.ts";
import type { BootstrapPlan } from "./plan.ts";
import { commented, type Tree } from "./tree.ts";
import { address, typed } from "./typed.ts";

/** Where a whole request waits in Envoy, as much of it as the picker takes (`maxRequestBodyBytes`). */
const WHOLE_BODY = 32 << 20;
const SOME_CHUNKS = 1 << 20;

/** After the first attempt; a picker had better list that many more. */
export const MAX_RETRIES = 2;

/** Answers may be silent for long: a model that thinks sends nothing. */
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
      ? commented("The largest prompt that can be kept; a larger one gets 413, or loses its retries.", WHOLE_BODY)
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
        "A client must never choose its own endpoint: without this, Envoy is an open relay while the picker is away.",
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

/** How often the fallback policy, which draws by chance, may draw again for a server that was not tried yet. */
const HOST_DRAWS = 30;

function route({ variant }: BootstrapPlan): Tree {
  const always = { timeout: commented("An answer takes as long as it takes.", "0s"), idle_timeout: IDLE };
  if (variant !== "override-host") return { cluster: "picked_endpoint", ...always };
  return {
    cluster: "model_servers",
    ...always,
    retry_policy: commented("Each retry goes to the next endpoint of the picker's list.", {
      retry_on: "connect-failure,refused-stream,retriable-status-codes",
      retriable_status_codes: commented("Add 429 only for servers that shed before they work.", [503]),
      num_retries: MAX_RETRIES,
      retry_back_off: { base_interval: "0.025s", max_interval: "0.25s" },
      retry_host_predicate: commented("Holds for the fallback policy's choices alone.", [
        {
          name: "envoy.retry_host_predicates.previous_hosts",
          typed_config: typed("extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"),
        },
      ]),
      host_selection_retry_max_attempts: commented(
        "Chances to draw a server that was not tried: with two of three dead, five drew a dead one again in 9 of 100 requests.",
        HOST_DRAWS,
      ),
    }),
  };
}
