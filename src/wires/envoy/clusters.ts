import { isIP } from "node:net";
import { HEADER } from "../../base/inference/headers.ts";
import type { PickerTls, SocketAddress } from "./options.ts";
import type { BootstrapPlan } from "./plan.ts";
import { address, commented, type Tree, typed } from "./tree.ts";

/** Envoy's own limits are 1,024; the picker holds one stream per running request (envoy-data-plane 1.8). */
const MANY = 40_000;
const BREAKERS = { max_pending_requests: MANY, max_requests: MANY, max_retries: 1024 };

const NAMESPACE = "envoy.lb";

/** The cluster of the model servers. */
export function modelServers(plan: BootstrapPlan): Tree {
  return plan.variant === "override-host" ? knownServers(plan) : anyAddress(plan);
}

function anyAddress(plan: BootstrapPlan): Tree {
  return {
    name: "picked_endpoint",
    type: "ORIGINAL_DST",
    lb_policy: "CLUSTER_PROVIDED",
    connect_timeout: "2s",
    original_dst_lb_config:
      plan.variant === "subset-hint"
        ? commented("Dynamic metadata only: nothing that a client sends can steer it.", {
            metadata_key: { key: NAMESPACE, path: [{ key: HEADER.destination }] },
          })
        : { use_http_header: true, http_header_name: HEADER.destination },
    circuit_breakers: { thresholds: [{ max_connections: MANY, ...BREAKERS }] },
    typed_extension_protocol_options: upstreamProtocol(plan),
  };
}

function knownServers(plan: BootstrapPlan): Tree {
  return {
    name: "model_servers",
    type: "STATIC",
    connect_timeout: "2s",
    circuit_breakers: { thresholds: [{ max_connections: MANY, ...BREAKERS }] },
    typed_extension_protocol_options: upstreamProtocol(plan),
    load_balancing_policy: policies("override_host", "override_host.v3.OverrideHost", {
      override_host_sources: commented("A string, one address or several with commas; Envoy ignores a list value.", [
        { metadata: { key: NAMESPACE, path: [{ key: HEADER.destination }] } },
      ]),
      selected_host_key:
        plan.servedReport === "selected-host"
          ? commented("Tells the picker which endpoint served the request (since Envoy 1.38).", {
              key: NAMESPACE,
              path: [{ key: HEADER.destinationServed }],
            })
          : undefined,
      fallback_policy: commented(
        "Chooses when no address of the list is left or known, and while no picker runs.",
        policies("least_request", "least_request.v3.LeastRequest"),
      ),
    }),
    load_assignment: assignment("model_servers", plan.endpoints),
  };
}

/** The cluster of the picker. */
export function picker(plan: BootstrapPlan): Tree {
  const pickers = [plan.picker, ...(plan.morePickers ?? [])];
  const literal = pickers.every(({ host }) => isIP(host) !== 0);
  return {
    name: "epp",
    type: literal ? "STATIC" : "STRICT_DNS",
    dns_lookup_family: literal ? undefined : "V4_PREFERRED",
    connect_timeout: "1s",
    lb_policy: literal && pickers.length === 1 ? undefined : "LEAST_REQUEST",
    circuit_breakers: { thresholds: [{ max_connections: 1024, ...BREAKERS }] },
    common_lb_config: commented(
      plan.failOpen
        ? "Envoy asks no picker that is down or drains: the fallback policy chooses instead."
        : "Envoy asks only healthy pickers. If none is healthy, Envoy asks all: a single picker still serves while it drains.",
      { healthy_panic_threshold: { value: plan.failOpen ? 0 : 1 } },
    ),
    transport_socket: plan.tls === undefined ? undefined : tls(plan.tls, plan.picker.host),
    typed_extension_protocol_options: http2({
      initial_stream_window_size: 1 << 20,
      initial_connection_window_size: 16 << 20,
      connection_keepalive: literal ? undefined : { interval: "30s", timeout: "10s" },
    }),
    health_checks: commented("Asks on the same port. One late answer is not an outage; NOT_SERVING counts at once.", [
      {
        timeout: "2s",
        interval: "5s",
        no_traffic_interval: "1s",
        unhealthy_threshold: 3,
        healthy_threshold: 1,
        reuse_connection: commented(
          "Behind the address of a Service a new connection reaches a picker that takes requests; the old one leads to the picker that drains.",
          false,
        ),
        grpc_health_check: { service_name: "envoy.service.ext_proc.v3.ExternalProcessor" },
      },
    ]),
    outlier_detection: commented(
      "Envoy stops asking a picker that refuses connections at once, before three health checks have failed.",
      {
        split_external_local_origin_errors: true,
        consecutive_local_origin_failure: 5,
        enforcing_consecutive_5xx: 0,
        enforcing_success_rate: 0,
        enforcing_local_origin_success_rate: 0,
        interval: "1s",
        base_ejection_time: commented("Ends earlier when the picker answers a health check.", "30s"),
        max_ejection_time: "30s",
        max_ejection_percent: 100,
      },
    ),
    load_assignment: assignment("epp", pickers),
  };
}

function tls({ pins, ca }: PickerTls, host: string): Tree {
  const literal = isIP(host) !== 0;
  const name = { san_type: literal ? "IP_ADDRESS" : "DNS", matcher: { exact: host } };
  const unchecked = pins.length === 0 && ca === undefined;
  const validation = {
    verify_certificate_spki: pins.length === 0 ? undefined : pins,
    trusted_ca: ca === undefined ? undefined : { filename: ca },
    match_typed_subject_alt_names: ca === undefined ? undefined : [name],
  };
  return {
    name: "envoy.transport_sockets.tls",
    typed_config: typed("extensions.transport_sockets.tls.v3.UpstreamTlsContext", {
      sni: literal ? undefined : host,
      common_tls_context: {
        alpn_protocols: commented("The health check also needs h2.", ["h2"]),
        validation_context: unchecked
          ? commented("Envoy accepts any certificate; --pin or --ca restricts it to the picker's.", validation)
          : validation,
      },
    }),
  };
}

function upstreamProtocol({ h2c }: BootstrapPlan): Tree | undefined {
  return h2c ? commented("appProtocol kubernetes.io/h2c: HTTP/2 without TLS.", http2({})) : undefined;
}

function http2(options: { readonly [key: string]: Tree | undefined }): Tree {
  const name = "extensions.upstreams.http.v3.HttpProtocolOptions";
  return {
    [`envoy.${name}`]: typed(name, { explicit_http_config: { http2_protocol_options: options } }),
  };
}

function policies(name: string, type: string, members?: { readonly [key: string]: Tree | undefined }): Tree {
  return {
    policies: [
      {
        typed_extension_config: {
          name: `envoy.load_balancing_policies.${name}`,
          typed_config: typed(`extensions.load_balancing_policies.${type}`, members),
        },
      },
    ],
  };
}

function assignment(cluster: string, hosts: readonly SocketAddress[]): Tree {
  return {
    cluster_name: cluster,
    endpoints: [{ lb_endpoints: hosts.map((host) => ({ endpoint: { address: address(host) } })) }],
  };
}
