import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { KNOWN_SERVERS, OPTIONS, POOL } from "../../../test/support/envoy/pool.cases.ts";
import { renderBootstrap } from "./bootstrap.ts";
import type { BootstrapOptions } from "./options.ts";
import { planBootstrap } from "./plan.ts";

// biome-ignore lint/suspicious/noExplicitAny: tests reach deep into a configuration
type Plain = any;

interface Read {
  readonly text: string;
  readonly manager: Plain;
  readonly extProc: Plain;
  readonly route: Plain;
  readonly servers: Plain;
  readonly picker: Plain;
}

function render(options: BootstrapOptions): Read {
  const text = renderBootstrap(planBootstrap(options));
  const { listeners, clusters } = parse(text).static_resources;
  const manager = listeners[0].filter_chains[0].filters[0].typed_config;
  return {
    text,
    manager,
    extProc: filter(manager, "ext_proc"),
    route: manager.route_config.virtual_hosts[0].routes[0],
    servers: clusters[0],
    picker: clusters[1],
  };
}

function filter(manager: Plain, name: string): Plain {
  return manager.http_filters.find((one: Plain) => one.name === `envoy.filters.http.${name}`)?.typed_config;
}

function http2Of(cluster: Plain): Plain {
  const options = cluster.typed_extension_protocol_options ?? {};
  return options["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]?.explicit_http_config.http2_protocol_options;
}

const SUBSET: BootstrapOptions = { ...OPTIONS, variant: "subset-hint", subsetHeader: "x-pool-subset" };
const ALL: readonly BootstrapOptions[] = [OPTIONS, KNOWN_SERVERS, SUBSET, { ...OPTIONS, variant: "tls" }];

describe("every bootstrap", () => {
  it.each(ALL.map((options) => [options.variant, options] as const))("%s: the same text twice", (_, options) => {
    expect(render(options).text).toBe(render(structuredClone(options)).text);
  });

  it.each(ALL.map((options) => [options.variant, options] as const))(
    "%s: no client chooses its endpoint (D-33), and one late answer of the picker is no outage (V-6)",
    (_, options) => {
      const { manager, extProc, picker } = render(options);
      const stripped = manager.early_header_mutation_extensions[0].typed_config.mutations;
      expect(stripped).toEqual(
        expect.arrayContaining([
          { remove: "x-gateway-destination-endpoint" },
          { remove: "x-gateway-destination-endpoint-served" },
          { remove: "x-prefiller-host-port" },
        ]),
      );
      // Only where the fallback policy can choose, nobody asks a picker that is not healthy.
      expect(picker.common_lb_config.healthy_panic_threshold.value).toBe(extProc.failure_mode_allow ? 0 : 1);
      expect(picker.health_checks).toMatchObject([
        { timeout: "2s", interval: "5s", unhealthy_threshold: 3, healthy_threshold: 1, reuse_connection: false },
      ]);
      expect(picker.health_checks[0].grpc_health_check.service_name).toBe(
        "envoy.service.ext_proc.v3.ExternalProcessor",
      );
      // Who refuses connections is left out at once, all of them if need be, and no answer of a picker counts for that.
      expect(picker.outlier_detection).toMatchObject({
        split_external_local_origin_errors: true,
        enforcing_consecutive_5xx: 0,
        max_ejection_percent: 100,
      });
      expect(picker.circuit_breakers.thresholds[0].max_retries).toBe(1024);
      expect(http2Of(picker)).toBeDefined();
    },
  );

  it("names the pool, the flags the picker needs and the command in its heading", () => {
    const { text } = render({ ...OPTIONS, command: "sluice envoy-config --resources here" });
    expect(text).toContain("# Envoy 1.40 in front of the Endpoint Picker of InferencePool prod/llm.\n");
    expect(text).toContain("#   sluice epp --secure-serving=false\n");
    expect(text).toContain("#   sluice envoy-config --resources here\n");
    expect(render({ ...OPTIONS, variant: "tls" }).text).toContain("#   sluice epp\n");
    const { text: walked } = render({
      ...OPTIONS,
      variant: "override-host",
      endpoints: [{ host: "10.0.0.1", port: 8000 }],
    });
    expect(walked).toContain("#   sluice epp --secure-serving=false --max-endpoints 3\n");
  });
});

describe("standalone", () => {
  const { extProc, servers, picker, route } = render(OPTIONS);

  it("sends headers, bodies and trailers both ways through the picker", () => {
    expect(extProc.processing_mode).toEqual({
      request_header_mode: "SEND",
      request_body_mode: "FULL_DUPLEX_STREAMED",
      request_trailer_mode: "SEND",
      response_header_mode: "SEND",
      response_body_mode: "FULL_DUPLEX_STREAMED",
      response_trailer_mode: "SEND",
    });
    expect(extProc.response_attributes).toEqual(["upstream.address"]);
    expect(extProc.failure_mode_allow).toBe(false);
  });

  it("connects to the picked address and to no other", () => {
    expect(route.route.cluster).toBe("picked_endpoint");
    expect(servers.original_dst_lb_config).toEqual({
      use_http_header: true,
      http_header_name: "x-gateway-destination-endpoint",
    });
    expect(http2Of(servers)).toBeUndefined();
  });

  it("looks up the Service by name", () => {
    expect(picker.type).toBe("STRICT_DNS");
    expect(picker.load_assignment.endpoints[0].lb_endpoints).toEqual([
      { endpoint: { address: { socket_address: { address: "llm-epp.prod.svc", port_value: 9002 } } } },
    ]);
    const literal = render({ ...OPTIONS, picker: { host: "::1", port: 9002 } });
    expect(literal.picker.type).toBe("STATIC");
    expect(literal.extProc.grpc_service.envoy_grpc.authority).toBe("[::1]:9002");
  });

  it("balances over several replicas of the picker", () => {
    const [one, two] = ["10.0.0.1", "10.0.0.2"].map((host) => ({ host, port: 9002 }));
    const several = render({ ...OPTIONS, picker: one, morePickers: [two!] });
    expect(several.picker).toMatchObject({ type: "STATIC", lb_policy: "LEAST_REQUEST" });
    expect(several.picker.load_assignment.endpoints[0].lb_endpoints).toHaveLength(2);
    expect(several.text).toContain("# Envoy connects to the picker at 10.0.0.1:9002 and 1 more of its replicas");
    const named = render({ ...OPTIONS, picker: one, morePickers: [{ host: "two.example", port: 9002 }] });
    expect(named.picker.type).toBe("STRICT_DNS");
    expect(render({ ...OPTIONS, picker: one }).picker.lb_policy).toBeUndefined();
  });

  it("asks another picker when one dies before it has answered", () => {
    for (const options of ALL) {
      const { extProc, picker: cluster } = render(options);
      const { retry_on, retry_host_predicate, host_selection_retry_max_attempts } = extProc.grpc_service.retry_policy;
      expect(retry_on.split(",")).toEqual(["refused-stream", "connect-failure", "reset"]);
      expect(retry_host_predicate).toMatchObject([{ name: "envoy.retry_host_predicates.previous_hosts" }]);
      expect(host_selection_retry_max_attempts).toBe(30);
      expect(cluster.circuit_breakers.thresholds[0].max_retries).toBeGreaterThan(1000);
    }
  });

  it("speaks HTTP/2 to servers of appProtocol kubernetes.io/h2c", () => {
    for (const options of [OPTIONS, KNOWN_SERVERS]) {
      const pool = { ...POOL, appProtocol: "kubernetes.io/h2c" } as const;
      expect(http2Of(render({ ...options, pool }).servers)).toEqual({});
    }
  });
});

describe("override-host", () => {
  it("knows the servers, walks down the picker's list and reports who served", () => {
    const { servers, route } = render(KNOWN_SERVERS);
    const policy = servers.load_balancing_policy.policies[0].typed_extension_config.typed_config;
    expect(policy.override_host_sources).toEqual([
      { metadata: { key: "envoy.lb", path: [{ key: "x-gateway-destination-endpoint" }] } },
    ]);
    expect(policy.selected_host_key.path).toEqual([{ key: "x-gateway-destination-endpoint-served" }]);
    expect(route.route.retry_policy).toMatchObject({ num_retries: 2, retriable_status_codes: [503] });
    const hosts = servers.load_assignment.endpoints[0].lb_endpoints;
    expect(hosts.map((host: Plain) => host.endpoint.address.socket_address.address)).toEqual(["10.0.0.1", "fd00::1"]);
  });

  it("has no field that an older Envoy rejects (V-1)", () => {
    const { text, extProc } = render({ ...KNOWN_SERVERS, envoyVersion: "1.36" });
    expect(text).not.toContain("selected_host_key:");
    expect(extProc.response_attributes).toEqual(["upstream.address"]);
    expect(text).toContain("# Envoy 1.36 in front");
  });

  it("fails open with the body kept, and may wait for the picker", () => {
    const { extProc, text } = render({ ...KNOWN_SERVERS, failureMode: "FailOpen" });
    expect(extProc.failure_mode_allow).toBe(true);
    expect(extProc.processing_mode.request_body_mode).toBe("BUFFERED");
    expect(extProc.processing_mode.request_trailer_mode).toBeUndefined();
    expect([extProc.message_timeout, extProc.max_message_timeout]).toEqual(["120s", "600s"]);
    expect(text).toContain("per_connection_buffer_limit_bytes: 33554432");
  });
});

describe("subset-hint", () => {
  it("tells the picker a constant list, a list of the request, or both in that order", () => {
    const both = render({ ...SUBSET, subset: ["10.0.0.1:8000"] });
    expect(both.manager.http_filters.map((one: Plain) => one.name.split(".").at(-1))).toEqual([
      ...["set_metadata", "lua", "ext_proc", "header_to_metadata", "router"],
    ]);
    expect(filter(both.manager, "set_metadata").metadata[0]).toEqual({
      metadata_namespace: "envoy.lb.subset_hint",
      allow_overwrite: true,
      value: { "x-gateway-destination-endpoint-subset": ["10.0.0.1:8000"] },
    });
    expect(filter(both.manager, "lua").default_source_code.inline_string).toContain('get("x-pool-subset")');
    expect(filter(render(SUBSET).manager, "set_metadata")).toBeUndefined();
    const constant = render({ ...SUBSET, subset: ["10.0.0.1:8000"], subsetHeader: "" });
    expect(filter(constant.manager, "lua")).toBeUndefined();
  });

  it("is steered by metadata alone and hides the served address from the client (D-39)", () => {
    const { servers, manager, route, extProc } = render(SUBSET);
    expect(servers.original_dst_lb_config).toEqual({
      metadata_key: { key: "envoy.lb", path: [{ key: "x-gateway-destination-endpoint" }] },
    });
    expect(route.response_headers_to_add[0].header.key).toBe("x-upstream-address");
    expect(filter(manager, "header_to_metadata").response_rules[0]).toMatchObject({
      header: "x-upstream-address",
      remove: true,
    });
    expect(extProc.metadata_options.forwarding_namespaces.untyped).toContain("envoy.lb.subset_hint");
  });
});

describe("tls", () => {
  const tlsOf = (tls: BootstrapOptions["tls"], picker = OPTIONS.picker) =>
    render({ ...OPTIONS, variant: "tls", tls, picker }).picker.transport_socket.typed_config;

  it("offers h2 and takes any certificate unless told otherwise", () => {
    expect(tlsOf(undefined)).toMatchObject({
      sni: "llm-epp.prod.svc",
      common_tls_context: { alpn_protocols: ["h2"], validation_context: {} },
    });
  });

  it("checks the key, the authority and the name (D-40)", () => {
    const pin = `${"A".repeat(43)}=`;
    expect(tlsOf({ pins: [pin], ca: "/ca.pem" }).common_tls_context.validation_context).toEqual({
      verify_certificate_spki: [pin],
      trusted_ca: { filename: "/ca.pem" },
      match_typed_subject_alt_names: [{ san_type: "DNS", matcher: { exact: "llm-epp.prod.svc" } }],
    });
    const literal = tlsOf({ pins: [], ca: "/ca.pem" }, { host: "10.0.0.9", port: 9002 });
    expect(literal.sni).toBeUndefined();
    expect(literal.common_tls_context.validation_context.match_typed_subject_alt_names).toEqual([
      { san_type: "IP_ADDRESS", matcher: { exact: "10.0.0.9" } },
    ]);
  });
});
