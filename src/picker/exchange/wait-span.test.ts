import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { flowSettings } from "../../../test/support/flow-control.ts";
import { type CollectedSpan, type OtlpCollector, startOtlpCollector } from "../../../test/support/otlp-collector.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { startTracing } from "../../base/telemetry/otel-tracing.ts";
import type { InferenceExchange } from "./exchange.ts";

const BODY = chatBody("the prompt of somebody");

let collector: OtlpCollector;
beforeEach(async () => {
  collector = await startOtlpCollector();
});
afterEach(() => collector[Symbol.asyncDispose]());

/** A traced core with a pool of which the test says how busy it is. */
class Traced {
  readonly pool = { saturation: 1 };
  readonly core: TestCore;
  /** Requests that were revoked. */
  readonly revoked: Rejection[] = [];

  private constructor(eviction: boolean) {
    const settings = flowSettings(() => this.pool.saturation, { eviction });
    const template = { ...settings.template, ttl: 5000, maxRequests: 3 };
    this.core = new TestCore({
      flowControl: { ...settings, template, negativeTemplate: template, bands: new Map([[5, template]]) },
      objectives: ["gold=5", "batch=-1"],
    });
  }

  static async start({ eviction = false, sampled = "1" } = {}): Promise<Traced> {
    const traced = new Traced(eviction);
    const { core } = traced;
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint, OTEL_TRACES_SAMPLER_ARG: sampled };
    core.tracing = await startTracing(env, {
      ...{ serviceName: "llm-d-epp", instrumentation: "llm-d-router", sampling: "ratio" },
      ...{ clock: core.clock, log: silentLogger },
    });
    return traced;
  }

  ask(more: readonly (readonly [string, string])[] = []): InferenceExchange {
    const wire = { pauseRequest() {}, resumeRequest() {}, evict: (why: Rejection) => void this.revoked.push(why) };
    const exchange = this.core.openExchange(wire);
    exchange.requestHeaders(HeaderList.of([[":path", "/v1/chat/completions"], ["x-request-id", "r1"], ...more]), false);
    exchange.requestBody(Buffer.from(BODY), true);
    return exchange;
  }

  saturation(now: number): void {
    this.pool.saturation = now;
    this.core.flowControl!.changed();
    this.core.clock.advance(0);
  }

  async spans(): Promise<readonly CollectedSpan[]> {
    await this.core.tracing!.close();
    return collector.spans;
  }

  /** The spans of waits. */
  async waits(): Promise<readonly CollectedSpan[]> {
    return (await this.spans()).filter(({ name }) => name === "flow_control_wait");
  }
}

const own = (span: CollectedSpan | undefined): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(span!.attributes)
      .filter(([name]) => name.startsWith("sluice.flow_control."))
      .map(([name, value]) => [name.slice("sluice.flow_control.".length), value]),
  );

describe("the span of a wait in flow control", () => {
  it("is a child of the request's span, from arrival to dispatch, and says why the request went on", async () => {
    const traced = await Traced.start();
    traced.ask();
    traced.core.clock.advance(7);
    const exchange = traced.ask([
      ["x-llm-d-inference-fairness-id", "team"],
      ["x-llm-d-inference-objective", "gold"],
      ["x-request-id", "r2"],
    ]);
    traced.ask();
    traced.core.clock.advance(30);
    traced.saturation(0.25);
    exchange.end("complete");
    const spans = await traced.spans();
    const request = spans.find(
      ({ name, attributes }) => name === "gateway.request" && attributes["sluice.end_cause"] === "complete",
    );
    const waits = spans.filter(({ name }) => name === "flow_control_wait");
    expect(waits.map(({ started, ended }) => [started, ended])).toEqual([
      [7, 37],
      [0, 37],
      [7, 37],
    ]);
    const [wait, first, last] = waits;
    expect(wait).toMatchObject({ parentId: request!.spanId, traceId: request!.traceId, kind: 1, error: undefined });
    expect(own(wait)).toEqual({
      ...{ band: 5, priority: 5, fairness_id: "team", outcome: "Dispatched", behind: 0 },
      ...{ bytes: BODY.length, saturation: 0.25, ceiling: 1 },
    });
    expect([own(first)["behind"], own(last)["behind"]]).toEqual([0, 2]);
    expect(JSON.stringify(spans)).not.toContain("somebody");
  });

  it("is absent where the request did not wait: it went on at once, found no room, or came too late", async () => {
    const traced = await Traced.start();
    traced.pool.saturation = 0;
    traced.ask().end("complete");
    traced.pool.saturation = 1;
    for (let i = 0; i < 4; i++) traced.ask();
    traced.core.flowControl!.close();
    traced.ask();
    expect((await traced.waits()).length).toBe(3);
  });

  it("is absent from a trace that is not sampled", async () => {
    const traced = await Traced.start({ sampled: "0" });
    const exchange = traced.ask();
    traced.saturation(0);
    exchange.end("complete");
    expect(await traced.spans()).toEqual([]);
  });

  it.each<[outcome: string, error: string | undefined, end: (traced: Traced, exchange: InferenceExchange) => void]>([
    ["EvictedTTL", "EvictedTTL", ({ core }) => core.clock.advance(5000)],
    ["EvictedOther", "EvictedOther", ({ core }) => core.flowControl!.close()],
    ["EvictedContextCancelled", undefined, (_, exchange) => exchange.end("client-gone")],
    [
      "EvictedContextCancelled",
      undefined,
      // The proxy answered in place of sluice.
      (_, exchange) => void exchange.responseHeaders(503, new HeaderList(), true),
    ],
    [
      "EvictedNoEndpoints",
      "EvictedNoEndpoints",
      ({ core }) => {
        for (const { id } of core.endpoints.list()) core.endpoints.remove(id);
        core.flowControl!.changed();
        core.clock.advance(60_000);
      },
    ],
  ])("ends with the wait: %s", async (outcome, error, end) => {
    const traced = await Traced.start();
    const exchange = traced.ask();
    end(traced, exchange);
    const [wait, ...others] = await traced.waits();
    expect(others).toEqual([]);
    expect([wait!.error, wait!.ended]).toEqual([error, traced.core.clock.now()]);
    expect(own(wait)).toEqual({
      ...{ band: 0, priority: 0, fairness_id: "default-flow", outcome, behind: 0, bytes: BODY.length },
    });
  });

  it("keeps the priority of the request where band 0 held it, and 256 characters of the fairness ID (bound)", async () => {
    const traced = await Traced.start();
    traced.ask([
      ["x-llm-d-inference-objective", "batch"],
      ["x-llm-d-inference-fairness-id", "n".repeat(100_000)],
    ]);
    traced.saturation(0);
    expect(own((await traced.waits())[0])).toMatchObject({ band: 0, priority: -1, fairness_id: "n".repeat(256) });
  });

  it("is no place for an eviction: the request's span has it as an event", async () => {
    const traced = await Traced.start({ eviction: true });
    traced.pool.saturation = 0;
    const victim = traced.ask([["x-llm-d-inference-objective", "batch"]]);
    traced.pool.saturation = 1;
    traced.core.clock.advance(3);
    traced.ask([["x-llm-d-inference-objective", "gold"]]);
    expect(traced.revoked.map(({ reason }) => reason)).toEqual(["evicted"]);
    traced.core.clock.advance(4);
    victim.end("rejected", traced.revoked[0]);
    const span = (await traced.spans()).find(({ name }) => name === "gateway.request");
    expect(span).toMatchObject({ events: [["sluice.evicted", 3]], ended: 7, error: "ResourceExhausted" });
  });
});
