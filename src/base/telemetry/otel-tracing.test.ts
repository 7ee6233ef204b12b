import { execFile } from "node:child_process";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type OtlpCollector, startOtlpCollector } from "../../../test/support/otlp-collector.ts";
import { poll } from "../../../test/support/poll.ts";
import { fixedLimit } from "../../../test/support/slowness.ts";
import { VirtualClock } from "../clock/virtual.ts";
import { type LogFields, type Logger, silentLogger } from "./logger.ts";
import { startTracing } from "./otel-tracing.ts";
import type { Span } from "./tracing.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PRODUCER = "b7ad6b7169203331";
const carrier = (flags = "01") => ({ traceparent: `00-${TRACE}-${PRODUCER}-${flags}`, userid: "alice" });

let collector: OtlpCollector;
beforeEach(async () => {
  collector = await startOtlpCollector();
});
afterEach(() => collector[Symbol.asyncDispose]());

const start = (env: Readonly<Record<string, string>> = {}, log: Logger = silentLogger, clock = new VirtualClock()) =>
  startTracing({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint, ...env }, { serviceName: "llm-d-async", clock, log });

function headersOf(span: Span): Record<string, string> {
  const headers: Record<string, string> = {};
  span.inject((name, value) => {
    headers[name] = value;
  });
  return headers;
}

/** What arrives of a root span and one of `carrier()`, with these variables. */
async function arrived(
  env: Readonly<Record<string, string>>,
  carriers: readonly Record<string, string>[],
  log?: Logger,
) {
  const tracing = await start(env, log);
  for (const it of carriers) tracing.start("s", it).end();
  await tracing.close();
  return collector.spans.map(({ parentId }) => parentId);
}

function recorder(): { readonly log: Logger; readonly lines: { fields: LogFields; message: string }[] } {
  const lines: { fields: LogFields; message: string }[] = [];
  return { lines, log: { ...silentLogger, warn: (fields, message) => lines.push({ fields, message }) } };
}

describe("startTracing", () => {
  it("continues the producer's trace, and hands it on with its baggage (A-93)", async () => {
    const tracing = await start();
    const metadata = { ...carrier(), tracestate: "vendor=1", baggage: "tenant=red" };
    const request = tracing.start("process-request", metadata, { "request.id": "r1", "retry.count": 0 });
    request.attribute("queue.id", "q1");
    const http = request.child("http-request", { "http.request.method": "POST" }, "client");
    const headers = headersOf(http);
    http.fail("inference request failed");
    http.end();
    request.end();
    await tracing.close();

    const [sent, outer] = collector.spans;
    expect(outer).toMatchObject({
      ...{ name: "process-request", traceId: TRACE, parentId: PRODUCER, kind: 1, error: undefined },
      attributes: { "request.id": "r1", "retry.count": 0, "queue.id": "q1" },
    });
    expect(sent).toMatchObject({
      ...{ name: "http-request", traceId: TRACE, parentId: outer?.spanId, kind: 3, error: "inference request failed" },
      attributes: { "http.request.method": "POST" },
    });
    expect(headers).toEqual({
      ...{ traceparent: `00-${TRACE}-${sent?.spanId}-01`, tracestate: "vendor=1", baggage: "tenant=red" },
    });
  });

  it("links a re-enqueued message to its span from a trace of its own (A-93)", async () => {
    const tracing = await start();
    const request = tracing.start("process-request", carrier());
    request.end();
    request.linked("re-enqueue", { "request.id": "r1" }).end();
    await tracing.close();
    const [first, second] = collector.spans;
    expect(second).toMatchObject({ name: "re-enqueue", parentId: "", attributes: { "request.id": "r1" } });
    expect(second?.links).toEqual([`${TRACE}/${first?.spanId}`]);
    expect(second?.traceId).not.toBe(TRACE);
  });

  it("begins a trace where the producer names none, or none that can be read", async () => {
    const roots = [{}, { traceparent: "garbage" }, { traceparent: `00-${"0".repeat(32)}-${PRODUCER}-01` }];
    expect(await arrived({}, roots)).toEqual(["", "", ""]);
  });

  it("names the service: OTEL_SERVICE_NAME, then the resource attributes, then its own name", async () => {
    const attributes = { OTEL_RESOURCE_ATTRIBUTES: "service.name=from-attributes,team=a%20b" };
    for (const env of [{}, attributes, { ...attributes, OTEL_SERVICE_NAME: "from-name" }]) await arrived(env, [{}]);
    expect(collector.spans.map(({ resource }) => resource["service.name"])).toEqual([
      "llm-d-async",
      "from-attributes",
      "from-name",
    ]);
    expect(collector.spans[2]?.resource["team"]).toBe("a b");
  });

  const samplers: readonly (readonly [env: Readonly<Record<string, string>>, parents: readonly string[]])[] = [
    [{}, ["", PRODUCER]],
    [{ OTEL_TRACES_SAMPLER: "always_on" }, ["", PRODUCER, PRODUCER]],
    [{ OTEL_TRACES_SAMPLER: "always_off" }, []],
    [{ OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0" }, []],
    [{ OTEL_TRACES_SAMPLER: "traceidratio" }, ["", PRODUCER, PRODUCER]],
    [{ OTEL_TRACES_SAMPLER: "parentbased_always_off" }, [PRODUCER]],
    [{ OTEL_TRACES_SAMPLER: "parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG: "0.0" }, [PRODUCER]],
    [{ OTEL_TRACES_SAMPLER: "parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG: "1.0" }, ["", PRODUCER]],
  ];
  it.each(samplers)("samples as %o says", async (env, parents) => {
    expect(await arrived(env, [{}, carrier("01"), carrier("00")])).toEqual(parents);
  });

  it("hands the decision of an unsampled trace on", async () => {
    const tracing = await start();
    const span = tracing.start("process-request", carrier("00")).child("http-request", {}, "client");
    expect(headersOf(span)["traceparent"]).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-00$`));
    await tracing.close();
  });

  it("warns about a sampler it does not know, and samples as without", async () => {
    const { log, lines } = recorder();
    expect(await arrived({ OTEL_TRACES_SAMPLER: "sometimes" }, [{}], log)).toEqual([""]);
    await arrived({ OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "half" }, [{}], log);
    expect(collector.spans.length).toBe(2);
    expect(lines.map(({ message }) => message)).toEqual([
      "OTEL_TRACES_SAMPLER has an unknown value; using parentbased_always_on",
      "OTEL_TRACES_SAMPLER_ARG is not a number from 0 to 1; using 1",
    ]);
  });

  it("takes an endpoint without a scheme when told that it is insecure", async () => {
    const endpoint = collector.endpoint.replace("http://", "");
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_INSECURE: "True" };
    expect(await arrived(env, [{}])).toEqual([""]);
  });

  it("refuses an endpoint that is no address", async () => {
    for (const endpoint of ["ftp://collector:21", "http://", "https://a:b:c"])
      await expect(start({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint })).rejects.toMatchObject({
        code: "TRACING_ENDPOINT",
      });
  });

  it("answers a request as a server, and shows what was over before it was told (scheduling 9.1)", async () => {
    const clock = new VirtualClock(1_700_000_000_000);
    const tracing = await start({}, silentLogger, clock);
    clock.advance(1000);
    const request = tracing.start("gateway.request", carrier(), { kinds: ["a", "b"], sums: [0.5, 2] }, "server");
    expect(request.sampled).toBe(true);
    clock.advance(10);
    const profile = request.past("profile", 1002.25, 1008, { left: 3, used: true }, "no endpoint left");
    request.event("evicted", { by: 7 });
    profile.past("scorer", 1003, 1004.5);
    clock.advance(5);
    request.end();
    await tracing.close();

    const [outer, inner, server] = collector.spans;
    expect(server).toMatchObject({ name: "gateway.request", kind: 2, scope: "sluice", parentId: PRODUCER });
    expect(server?.attributes).toEqual({ kinds: ["a", "b"], sums: [0.5, 2] });
    expect(outer).toMatchObject({ kind: 1, parentId: server?.spanId, attributes: { left: 3, used: true } });
    expect(inner).toMatchObject({ parentId: outer?.spanId, events: [] });
    expect([server?.error, outer?.error, inner?.error]).toEqual([undefined, "no endpoint left", undefined]);
    expect(server?.events).toEqual([["evicted", 1_700_000_001_010]]);
    const times = [server, outer, inner].map((span) =>
      [span!.started, span!.ended].map((at) => at - 1_700_000_000_000),
    );
    expect(times).toEqual([
      [1000, 1015],
      [1002.25, 1008],
      [1003, 1004.5],
    ]);
  });

  it("keeps the times of a trace together when the wall clock is set", async () => {
    let wall = 1_700_000_000_000;
    const clock = Object.assign(new VirtualClock(), { wall: () => wall });
    const tracing = await start({}, silentLogger, clock);
    const request = tracing.start("gateway.request", {});
    clock.advance(10);
    wall -= 3_600_000;
    request.child("inner").end();
    request.end();
    await tracing.close();
    expect(collector.spans.map(({ ended }) => ended)).toEqual([1_700_000_000_010, 1_700_000_000_010]);
  });

  it("knows that nobody will see an unsampled span", async () => {
    const tracing = await start();
    expect(tracing.start("s", carrier("00")).sampled).toBe(false);
    await tracing.close();
  });

  it("is off without an endpoint", async () => {
    for (const OTEL_EXPORTER_OTLP_ENDPOINT of ["", " "])
      expect((await start({ OTEL_EXPORTER_OTLP_ENDPOINT })).on).toBe(false);
  });

  it("drops what ends while 2,048 spans wait", async () => {
    const tracing = await start();
    for (let i = 0; i < 5_000; i++) tracing.start("process-request", {}).end();
    await tracing.close();
    // The first 512 left as soon as there were so many, and made room.
    expect(collector.spans.length).toBe(2048 + 512);
  });

  it("loses spans, and nothing else, when nobody is there, and says so once", async () => {
    await collector[Symbol.asyncDispose]();
    const { log, lines } = recorder();
    const tracing = await start({}, log);
    for (let i = 0; i < 2_000; i++) tracing.start("process-request", carrier()).end();
    await tracing.close();
    expect(lines).toEqual([
      {
        fields: expect.objectContaining({ collector: new URL(collector.endpoint).host }),
        message: "spans could not be sent and are lost",
      },
    ]);
  });

  it("stops waiting for a collector that does not answer after 5 s", async () => {
    await using silent = await startOtlpCollector({ answers: false });
    const clock = new VirtualClock();
    const tracing = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: silent.endpoint }, silentLogger, clock);
    tracing.start("process-request", {}).end();
    let closed = false;
    const closing = tracing.close().then(() => {
      closed = true;
    });
    await poll("the call", () => silent.calls > 0);
    clock.advance(4_999);
    await Promise.resolve();
    expect(closed).toBe(false);
    clock.advance(1);
    await closing;
  });
});

describe("sampling of the Endpoint Picker (scheduling 9.1)", () => {
  const ARG = "OTEL_TRACES_SAMPLER_ARG";
  const NAME = "OTEL_TRACES_SAMPLER";
  /** How many of 400 traces that begin here are sampled, and what was logged. */
  async function sampled(env: Readonly<Record<string, string>>): Promise<[share: number, errors: string[]]> {
    const errors: string[] = [];
    const log: Logger = { ...silentLogger, error: (_fields, message) => errors.push(message) };
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint };
    const dependencies = { serviceName: "s", sampling: "ratio", clock: new VirtualClock(), log } as const;
    const tracing = await startTracing({ ...endpoint, ...env }, dependencies);
    let count = 0;
    for (let i = 0; i < 400; i++) if (tracing.start("s", {}).sampled) count++;
    const child = tracing.start("s", carrier("01")).sampled;
    expect([child, tracing.start("s", carrier("00")).sampled]).toEqual([true, false]);
    await tracing.close();
    return [count, errors];
  }

  it("is a tenth of the traces that begin here, and what a parent says for the others", async () => {
    const [count, errors] = await sampled({});
    // 40 expected, standard deviation 6.
    expect(count).toBeGreaterThan(4);
    expect(count).toBeLessThan(100);
    expect(errors).toEqual([]);
  });

  it("is the ratio that OTEL_TRACES_SAMPLER_ARG gives", async () => {
    expect(await sampled({ [ARG]: "0" })).toEqual([0, []]);
    expect(await sampled({ [NAME]: "ParentBased_TraceIdRatio", [ARG]: " 1.0 " })).toEqual([400, []]);
  });

  it("stays a tenth for another sampler or no ratio, and says so as an error", async () => {
    const wrong: readonly (readonly [Readonly<Record<string, string>>, string])[] = [
      [
        { [NAME]: "always_on" },
        "OTEL_TRACES_SAMPLER can only be parentbased_traceidratio; using this sampler with ratio 0.1",
      ],
      [
        { [NAME]: "traceidratio", [ARG]: "1" },
        "OTEL_TRACES_SAMPLER can only be parentbased_traceidratio; using this sampler with ratio 0.1",
      ],
      [{ [ARG]: "half" }, "OTEL_TRACES_SAMPLER_ARG is not a number from 0 to 1; using 0.1"],
      [{ [ARG]: "1.5" }, "OTEL_TRACES_SAMPLER_ARG is not a number from 0 to 1; using 0.1"],
    ];
    for (const [env, message] of wrong) {
      const [count, errors] = await sampled(env);
      expect(count).toBeGreaterThan(4);
      expect(count).toBeLessThan(100);
      expect(errors).toEqual([message]);
    }
  });
});

describe("a process of its own", () => {
  const url = (file: string) => JSON.stringify(new URL(file, import.meta.url).href);
  /** Runs a script with `tracing` as it is with that endpoint; what it printed. Fails unless it ends by itself. */
  const run = (endpoint: string, script: string) =>
    new Promise<string>((resolve, reject) => {
      const code = `
        import { createRequire } from "node:module";
        import { realClock } from ${url("../clock/real.ts")};
        import { silentLogger } from ${url("./logger.ts")};
        import { startTracing } from ${url("./otel-tracing.ts")};
        const tracing = await startTracing(
          { OTEL_EXPORTER_OTLP_ENDPOINT: ${JSON.stringify(endpoint)} },
          { serviceName: "s", clock: realClock, log: silentLogger },
        );
        const loaded = () => Object.keys(createRequire(import.meta.url).cache).filter((file) => file.includes("opentelemetry"));
        ${script}`;
      execFile(
        process.execPath,
        ["--input-type=module", "-e", code],
        { timeout: fixedLimit(15_000) },
        (error, stdout, stderr) =>
          error === null ? resolve(stdout.trim()) : reject(new Error(`${error.message}\n${stderr}`)),
      );
    });

  it("loads nothing of OpenTelemetry without an endpoint (A-93)", async () => {
    const script = `tracing.start("s", {}).end(); await tracing.close(); console.log(tracing.on, loaded().length > 0);`;
    expect(await run("", script)).toBe("false false");
    expect(await run(collector.endpoint, script)).toBe("true true");
  });

  it("prints spans when OTEL_TRACES_EXPORTER is console", async () => {
    const script = `
      const console = await startTracing({ OTEL_TRACES_EXPORTER: "console" }, { serviceName: "s", clock: realClock, log: silentLogger });
      console.start("gateway.request", {}).end();
      await console.close();`;
    expect(await run("", script)).toContain("name: 'gateway.request'");
  });

  it("ends by itself after it closed, whether its collector is there or not", async () => {
    const script = `tracing.start("s", {}).end(); await tracing.close(); console.log("closed");`;
    expect(await run(collector.endpoint, script)).toBe("closed");
    await collector[Symbol.asyncDispose]();
    expect(await run(collector.endpoint, script)).toBe("closed");
  });
});
