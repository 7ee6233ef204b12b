import { connect } from "node:net";
import { connect as tlsConnect } from "node:tls";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ExpositionReader } from "../../src/base/telemetry/exposition-reader.ts";
import { ask, getJson } from "../support/client.ts";
import { samplesOf } from "../support/core.ts";
import { type BareEpp, ExtProcClient, exchange, health, startBareEpp } from "../support/epp-process.ts";
import { GrpcClient } from "../support/grpc-client.ts";
import { poll } from "../support/poll.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";

const EXT_PROC = "envoy.service.ext_proc.v3.ExternalProcessor";
const [SERVING, NOT_FOUND, UNIMPLEMENTED] = [1, 5, 12];

let sims: Sim[];
let endpoints: string;
beforeAll(async () => {
  sims = await startSims(1);
  endpoints = endpointsFile(sims.map((sim) => sim.port));
});
afterAll(() => Promise.all((sims ?? []).map((sim) => sim.process.stop())));

/** The ALPN protocol agreed on, and the certificate, or the error. */
function handshake(port: number, alpn: string[]): Promise<{ protocol: string | false; selfSigned: boolean } | string> {
  return new Promise((resolve) => {
    const socket = tlsConnect({ host: "127.0.0.1", port, ALPNProtocols: alpn, rejectUnauthorized: false });
    socket.on("error", (error: Error & { code?: string }) => resolve(error.code ?? error.message));
    socket.on("secureConnect", () => {
      const { issuer, subject } = socket.getPeerCertificate();
      resolve({
        protocol: socket.alpnProtocol ?? false,
        selfSigned: JSON.stringify(issuer) === JSON.stringify(subject),
      });
      socket.destroy();
    });
  });
}

describe("sluice epp with its defaults, but for health on the ext_proc port", () => {
  let epp: BareEpp;
  beforeAll(async () => {
    epp = await startBareEpp(endpoints, ["--health-checking=false"]);
  });
  afterAll(() => epp?.process.stop());

  it("serves ext_proc over TLS with a self-signed certificate and h2 by ALPN (E-01, D-30, pitfall 21)", async () => {
    expect(await handshake(epp.port, ["h2"])).toEqual({ protocol: "h2", selfSigned: true });
    const client = await ExtProcClient.connect(epp.port, { tls: true });
    expect(await exchange(client)).toBe(`127.0.0.1:${sims[0]!.port}`);
    client.close();
  });

  it("refuses clients that speak no h2, and clear text (D-30)", async () => {
    expect(await handshake(epp.port, ["http/1.1"])).toMatch(/ALERT|RESET/);
    const socket = connect({ host: "127.0.0.1", port: epp.port });
    socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u0004\0\0\0\0\0");
    const received: Buffer[] = [];
    await new Promise<void>((resolve) => {
      socket.on("data", (bytes: Buffer) => received.push(bytes));
      socket.on("error", () => {});
      socket.on("close", () => resolve());
    });
    // At most a TLS alert; a server that spoke clear text would have sent its SETTINGS, type 4 in byte 3.
    const answer = Buffer.concat(received);
    expect([0, 0x15]).toContain(answer.length === 0 ? 0 : answer[0]);
  });

  it("answers health in clear text on its own port, whatever the name (E-123, E-131)", async () => {
    for (const service of ["", "liveness", "readiness", "inference-extension", EXT_PROC, "anything"])
      expect(await health(epp.healthPort, service), service).toEqual({ serving: SERVING, grpc: 0 });
  });

  it("offers no Watch there (E-124)", async () => {
    expect(await health(epp.healthPort, EXT_PROC, "Watch")).toEqual({ serving: undefined, grpc: UNIMPLEMENTED });
    const list = await health(epp.healthPort, "", "List");
    expect(list.grpc).toBe(0);
  });

  it("has no health service on the ext_proc port where it is told to have none (E-125)", async () => {
    const client = await GrpcClient.connect(epp.port, { tls: true });
    expect((await client.unary("/grpc.health.v1.Health/Check", Buffer.alloc(0))).end.status).toBe(UNIMPLEMENTED);
    client.close();
  });
});

describe("sluice epp --secure-serving=false", () => {
  let epp: BareEpp;
  beforeAll(async () => {
    epp = await startBareEpp(endpoints, ["--secure-serving=false", "--refresh-prometheus-metrics-interval=100ms"]);
  });
  afterAll(() => epp?.process.stop());

  it("speaks h2c with prior knowledge, and health on the ext_proc port too (E-01, E-125)", async () => {
    const client = await ExtProcClient.connect(epp.port);
    expect(await exchange(client)).toBe(`127.0.0.1:${sims[0]!.port}`);
    client.close();
    expect(await health(epp.port, "")).toEqual({ serving: SERVING, grpc: 0 });
    expect(await health(epp.port, EXT_PROC)).toEqual({ serving: SERVING, grpc: 0 });
    expect(await health(epp.port, "readiness")).toEqual({ serving: undefined, grpc: NOT_FOUND });
  });

  it("advertises at least 1,024 streams, and windows of 256 KiB a stream (D-27, D-87, pitfall 35, docs/operate/bodies.md)", async () => {
    const client = await GrpcClient.connect(epp.port);
    const { maxConcurrentStreams, initialWindowSize } = client.session.remoteSettings;
    expect(maxConcurrentStreams ?? Number.POSITIVE_INFINITY).toBeGreaterThanOrEqual(1024);
    expect(initialWindowSize).toBeGreaterThanOrEqual(1 << 18);
    client.close();
  });

  it("publishes the reference's metric names after one exchange (S-90, scheduling 8.3-8.5)", async () => {
    const client = await ExtProcClient.connect(epp.port);
    const usage = {
      prompt_tokens: 7,
      completion_tokens: 5,
      total_tokens: 12,
      prompt_tokens_details: { cached_tokens: 3 },
    };
    await exchange(client, JSON.stringify({ object: "chat.completion", usage }));
    const bad = client.open();
    bad.requestHeaders([[":path", "/v1/chat/completions"]]);
    bad.requestBody("{", true);
    expect((await bad.next())?.immediateResponse.status.code).toBe(400);
    await bad.call.end;
    client.close();
    const page = await poll("the pool metrics", async () => {
      const { text } = await ask(`${epp.adminUrl}/metrics`);
      return text.includes('\nllm_d_epp_ready_endpoints{name="epp"} 1\n') ? text : undefined;
    });
    const samples = samplesOf(page);
    const m = 'model_name="sim",target_model_name="sim"';
    const m4 = `${m},fairness_id="default-flow",priority="0"`;
    for (const [name, value] of [
      [`llm_d_epp_request_total{${m4}}`, 2],
      [`inference_objective_request_total{${m},priority="0"}`, 2],
      [`inference_model_request_total{${m}}`, 2],
      [`llm_d_epp_request_input_tokens_sum{${m4}}`, 7],
      [`inference_objective_input_tokens_sum{${m}}`, 7],
      [`inference_model_output_tokens_sum{${m}}`, 5],
      [`llm_d_epp_request_cached_tokens_sum{${m4}}`, 3],
      [`inference_objective_prompt_cached_tokens_sum{${m}}`, 3],
      [`llm_d_epp_request_running{${m4}}`, 0],
      [`inference_objective_running_requests{model_name="sim"}`, 0],
      [`llm_d_epp_request_duration_seconds_count{${m4}}`, 2],
      [`llm_d_epp_request_size_bytes_count{${m4}}`, 2],
      [`inference_objective_request_sizes_count{${m}}`, 2],
      [`llm_d_epp_response_size_bytes_count{${m4}}`, 2],
      [`llm_d_epp_request_ntpot_seconds_count{${m4}}`, 1],
      [`inference_objective_normalized_time_per_output_token_seconds_count{${m}}`, 1],
      [`llm_d_epp_request_ttft_seconds_count{${m4},streaming="false"}`, 2],
      [
        'llm_d_epp_request_error_total{model_name="",target_model_name="",fairness_id="",priority="0",error_code="BadRequest"}',
        1,
      ],
      ['inference_objective_request_error_total{model_name="",target_model_name="",error_code="BadRequest"}', 1],
      ['llm_d_epp_ready_endpoints{name="epp"}', 1],
      ['inference_pool_ready_pods{name="epp"}', 1],
      ['llm_d_epp_average_queue_size{name="epp"}', 0],
      ['inference_pool_average_kv_cache_utilization{name="epp"}', 0],
      ['llm_d_epp_std_dev_queue_size{name="epp"}', 0],
      ["llm_d_epp_scheduler_e2e_duration_seconds_count", 2],
      ["inference_extension_scheduler_e2e_duration_seconds_count", 2],
    ] as const)
      expect(samples.get(name), name).toBe(value);
    const names = [...samples.keys()];
    for (const start of [
      'llm_d_epp_per_endpoint_queue_size{name="epp",model_server_endpoint="',
      'inference_pool_per_pod_queue_size{name="epp",model_server_pod="',
      'llm_d_epp_scheduler_attempts_total{status="success",target_model_name="sim",endpoint_name="server-1",',
      'llm_d_epp_plugin_duration_seconds_count{extension_point="',
      'inference_extension_plugin_duration_seconds_count{extension_point="',
      "llm_d_epp_info{",
    ])
      expect(
        names.some((name) => name.startsWith(start)),
        start,
      ).toBe(true);
    expect(page).toContain(
      'llm_d_epp_request_input_tokens_bucket{model_name="sim",target_model_name="sim",fairness_id="default-flow",priority="0",le="32778"}',
    );
  });

  it("writes a page that our own reader reads without a malformed line", async () => {
    const page = Buffer.from((await ask(`${epp.adminUrl}/metrics`)).text);
    const families = page.toString().matchAll(/^# TYPE (\S+) (\S+)$/gm);
    const wanted = [...families].flatMap(([, name, type]) =>
      type === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name!],
    );
    expect(wanted.length).toBeGreaterThan(50);
    const reader = new ExpositionReader(wanted);
    const samples = reader.read(page, page.length, () => {});
    expect(samples).toBe(
      page
        .toString()
        .split("\n")
        .filter((line) => line !== "" && !line.startsWith("#")).length,
    );
    // The TYPE line of a histogram names the family and not its samples; every other line is readable.
    expect(reader.malformed).toBe(0);
  });

  it("remembers why: the decision by its number (S-90)", async () => {
    const decisions = await getJson<{ sequence: number }[]>(`${epp.adminUrl}/debug/decisions`);
    expect(decisions.length).toBeGreaterThan(0);
    const one = await getJson<{ sequence: number }>(`${epp.adminUrl}/debug/decisions/${decisions[0]!.sequence}`);
    expect(one.sequence).toBe(decisions[0]!.sequence);
  });
});
