import { gunzipSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../support/client.ts";
import { samplesOf } from "../support/core.ts";
import { type BareEpp, ExtProcClient, exchange, finish, health, route, startBareEpp } from "../support/epp-process.ts";
import { encodeRequest, headerMap } from "../support/extproc-client.ts";
import { framed, GrpcClient } from "../support/grpc-client.ts";
import { poll } from "../support/poll.ts";
import { sluice } from "../support/process.ts";
import { endpointsFile, portOf, type Sim, startSims } from "../support/stack.ts";

const PROCESS = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
const RESOURCE_EXHAUSTED = 8;

let sims: Sim[];
let endpoints: string;
beforeAll(async () => {
  sims = await startSims(1);
  endpoints = endpointsFile(sims.map((sim) => sim.port));
});
afterAll(() => Promise.all((sims ?? []).map((sim) => sim.process.stop())));

describe("sluice epp with its operational flags", () => {
  let epp: BareEpp;
  beforeAll(async () => {
    epp = await startBareEpp(endpoints, [
      ...["--secure-serving=false", "--grpc-max-recv-msg-size=1Mi", "--enable-grpc-stream-metrics"],
      ...["--zap-encoder=console", "--zap-log-level=info"],
    ]);
  });
  afterAll(() => epp?.process.stop());

  it("reads compressed messages and says so (E-06, D-3)", async () => {
    const client = await GrpcClient.connect(epp.port);
    const call = client.open(PROCESS, { "grpc-encoding": "gzip" });
    const protocolConfig = { requestBodyMode: 4, responseBodyMode: 4 };
    const pairs = [
      [":method", "POST"],
      [":path", "/v1/chat/completions"],
    ] as const;
    call.send(encodeRequest({ requestHeaders: { headers: headerMap(pairs) }, protocolConfig }), true);
    const body = JSON.stringify({ model: "sim", messages: [{ role: "user", content: "hello ".repeat(5000) }] });
    call.send(encodeRequest({ requestBody: { body: Buffer.from(body), endOfStream: true } }), true);
    expect((await call.next())?.toString("latin1")).toContain(`127.0.0.1:${sims[0]!.port}`);
    call.reset(2);
    expect((await call.end).acceptEncoding).toBe("identity,gzip");
    client.close();
  });

  it("refuses a message beyond the limit, inflated or not, and serves on (E-07)", async () => {
    const client = await GrpcClient.connect(epp.port);
    const large = Buffer.alloc((1 << 20) + 1);
    const plain = client.open(PROCESS);
    plain.send(large);
    expect((await plain.end).status).toBe(RESOURCE_EXHAUSTED);
    const bomb = client.open(PROCESS, { "grpc-encoding": "gzip" });
    void bomb.sendRaw(framed(gzipSync(large), true));
    expect((await bomb.end).status).toBe(RESOURCE_EXHAUSTED);
    client.close();
    const next = await ExtProcClient.connect(epp.port);
    expect(await exchange(next)).toBe(`127.0.0.1:${sims[0]!.port}`);
    next.close();
  });

  it("counts streams under the reference's names", async () => {
    const client = await ExtProcClient.connect(epp.port);
    const open = client.open();
    await route(open);
    const read = async () => samplesOf((await ask(`${epp.adminUrl}/metrics`)).text);
    const withInFlight = (count: number) =>
      poll(`${count} streams in flight`, async () => {
        const samples = await read();
        return samples.get("llm_d_epp_extproc_streams_inflight") === count ? samples : undefined;
      });
    // The ends of earlier ones may come behind this one: their connections are others.
    const before = await withInFlight(1);
    await finish(open);
    const after = await withInFlight(0);
    const total = 'llm_d_epp_extproc_streams_total{code="Canceled"}';
    expect(after.get(total)).toBe((before.get(total) ?? 0) + 1);
    expect(after.get('llm_d_epp_extproc_streams_total{code="ResourceExhausted"}')).toBe(2);
    const duration = "llm_d_epp_extproc_stream_duration_seconds_count";
    expect(after.get(duration)).toBe(before.get(duration)! + 1);
    client.close();
  });

  it("writes OpenMetrics for Prometheus, the same samples in it", async () => {
    const accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
    const names = (text: string) =>
      text
        .split("\n")
        .filter((line) => line !== "" && !line.startsWith("#"))
        .map((line) => line.slice(0, line.lastIndexOf(" ")));
    // The first failure of a scrape, between the two looks, makes a sample that was not there before.
    await poll("both with the same samples", async () => {
      const open = await ask(`${epp.adminUrl}/metrics`, { headers: { accept } });
      expect(open.headers["content-type"]).toBe("application/openmetrics-text; version=1.0.0; charset=utf-8");
      expect(open.text.endsWith("\n# EOF\n")).toBe(true);
      expect(names(open.text)).toEqual(names((await ask(`${epp.adminUrl}/metrics`)).text));
      return true;
    });
  });

  it("takes a CPU profile while it serves, one at a time", async () => {
    const client = await ExtProcClient.connect(epp.port);
    const profile = async (): Promise<{ status: number; bytes: Buffer }> => {
      const answer = await fetch(`${epp.adminUrl}/debug/pprof/profile?seconds=2`);
      return { status: answer.status, bytes: Buffer.from(await answer.arrayBuffer()) };
    };
    // Whichever of two comes first is taken. Where the second one comes when the first is over, both are.
    const [taken, refused] = await poll("one profile, and a second one meanwhile", async () => {
      let over = false;
      const both = Promise.all([profile(), profile()]).finally(() => {
        over = true;
      });
      while (!over) await exchange(client);
      const [first, second] = (await both).sort((a, b) => a.status - b.status);
      return second!.status === 200 ? undefined : ([first!, second!] as const);
    });
    client.close();
    expect([taken.status, refused.status]).toEqual([200, 409]);
    expect(refused.bytes.toString()).toContain("another profile");
    const text = gunzipSync(taken.bytes).toString("latin1");
    expect(text).toContain("nanoseconds");
    expect(text).toMatch(/(src\/wires|dist\/chunks)\//);
    expect((await ask(`${epp.adminUrl}/debug/pprof/goroutine`)).status).toBe(501);
  });

  it("gives up a profile whose reader has left", async () => {
    const gone = new AbortController();
    const heap = () => ask(`${epp.adminUrl}/debug/pprof/heap?seconds=1`);
    const begin = () => fetch(`${epp.adminUrl}/debug/pprof/profile?seconds=60`, { signal: gone.signal });
    let left = begin();
    await poll("the profile under way", async () => {
      if ((await heap()).status === 409) return true;
      // The look was there first, and may have kept the profile from its place.
      if ((await Promise.race([left, undefined])) !== undefined) left = begin();
      return false;
    });
    gone.abort();
    await expect(left).rejects.toThrow();
    await poll("the free place", async () => (await heap()).status === 200);
  });

  it("logs for people when asked to", () => {
    expect(epp.process.stderr).toMatch(/^\d{4}-\S+Z\tINFO\tsluice\tconfiguration in use\t\{/m);
  });
});

describe("sluice epp", () => {
  it("starts with the arguments of v0.3's manifests (E-121)", async () => {
    const process = sluice(
      ...["epp", "--endpoints", endpoints, "--bind-address", "127.0.0.1", "-poolName", "vllm", "-v", "4"],
      ...["--zap-encoder", "json", "-grpcPort", "0", "-grpcHealthPort", "0", "-metricsPort", "0"],
      ...["-secureServing=false", "-DestinationEndpointHintMetadataNamespace", "envoy.lb"],
    );
    const port = portOf(await process.listening("ext-proc"));
    expect((await health(portOf(await process.listening("health")), "inference-extension")).serving).toBe(1);
    const client = await ExtProcClient.connect(port);
    expect(await exchange(client)).toBe(`127.0.0.1:${sims[0]!.port}`);
    client.close();
    const { text } = await ask(`http://${await process.listening("admin")}/metrics`);
    expect(text).toContain('llm_d_epp_ready_endpoints{name="vllm"}');
    expect(text).not.toContain("extproc_streams_inflight");
    await process.stop();
  });

  it("has no profiles with --enable-pprof=false, and says of which flags nothing comes (E-120)", async () => {
    const epp = await startBareEpp(endpoints, ["--enable-pprof=false", "--enable-cert-reload"]);
    expect((await ask(`${epp.adminUrl}/debug/pprof/heap?seconds=1`)).status).toBe(404);
    expect(epp.process.stderr).toContain("--enable-cert-reload has no effect");
    await epp.process.stop();
  });
});
