import { describe, expect, it } from "vitest";
import { FakeGrpcStream } from "../../../test/support/fake-grpc-stream.ts";
import { decodeScaler, encodeScaler, type Metadata } from "../../../test/support/scaler-client.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { GRPC_STATUS } from "../../base/grpc/status.ts";
import type { GrpcStreamEvents } from "../../base/grpc/transport.ts";
import { Backlog } from "../../picker/flowcontrol/backlog.ts";
import { DispatchRate } from "../../picker/flowcontrol/dispatch-rate.ts";
import { MAX_STREAMS, MAX_STREAMS_PER_OBJECT } from "./activity-streams.ts";
import { Scaler } from "./scaler.ts";

type Method = "IsActive" | "StreamIsActive" | "GetMetricSpec" | "GetMetrics";

/** A call of the scaler, as its client sees it. */
class Call {
  readonly stream = new FakeGrpcStream();
  readonly #events: GrpcStreamEvents;

  constructor(scaler: Scaler, method: Method, request: Buffer) {
    this.#events = scaler.handlers().get(`/externalscaler.ExternalScaler/${method}`)!(this.stream);
    this.#events.message(request);
    this.#events.halfClosed();
  }

  get states(): boolean[] {
    return this.stream.messages().map((bytes) => decodeScaler<{ result: boolean }>("IsActiveResponse", bytes).result);
  }

  get end(): { status: number | undefined; message: string | undefined } {
    return { status: this.stream.status, message: this.stream.statusMessage };
  }

  cancel(): void {
    this.#events.closed("cancelled");
  }
}

/** A scaler whose picker the test plays. */
class Driven {
  readonly clock = new VirtualClock();
  readonly rate = new DispatchRate();
  readonly backlog = new Backlog(this.clock, this.rate);
  readonly source: { backlog: Backlog | undefined; inFlight: number } = { backlog: this.backlog, inFlight: 0 };
  leads = true;
  readonly scaler = new Scaler({ clock: this.clock, source: this.source, leads: () => this.leads });

  enter(priority = 0, bytes = 100, tokens = 25): void {
    this.backlog.entered({ priority, bytes, tokens });
  }

  leave(priority = 0, bytes = 100, tokens = 25): void {
    this.backlog.left({ priority, bytes, tokens });
    this.rate.count(this.clock.now());
  }

  call(method: Method, metadata: Metadata = { target: "5" }, name = "servers"): Call {
    const ref = { name, namespace: "llm", scalerMetadata: metadata };
    return new Call(this.scaler, method, encodeScaler("ScaledObjectRef", ref));
  }

  metrics(metadata: Metadata, metricName = ""): Call {
    const request = { scaledObjectRef: { name: "servers", namespace: "llm", scalerMetadata: metadata }, metricName };
    return new Call(this.scaler, "GetMetrics", encodeScaler("GetMetricsRequest", request));
  }

  figure(metadata: Metadata, metricName = ""): unknown {
    const [answer] = this.metrics(metadata, metricName).stream.messages();
    return decodeScaler("GetMetricsResponse", answer!);
  }

  watch(metadata: Metadata = { target: "5" }, name = "servers"): Call {
    return this.call("StreamIsActive", metadata, name);
  }
}

describe("IsActive", () => {
  it("is true while a request waits or is in flight, and only then", () => {
    const driven = new Driven();
    const isActive = (metadata?: Metadata): unknown => {
      const call = driven.call("IsActive", metadata);
      expect(call.end.status).toBe(GRPC_STATUS.ok);
      return call.states;
    };
    expect(isActive()).toEqual([false]);
    driven.enter();
    expect(isActive()).toEqual([true]);
    expect(isActive({ target: "5", priority: "0" })).toEqual([true]);
    expect(isActive({ target: "5", priority: "1" })).toEqual([false]);
    driven.leave();
    driven.source.inFlight = 1;
    expect([isActive(), isActive({ target: "5", priority: "1" })]).toEqual([[true], [true]]);
    driven.source.inFlight = 0;
    expect(isActive()).toEqual([false]);
  });
});

describe("GetMetricSpec and GetMetrics", () => {
  it.each([
    ["queuedRequests", "sluice-queued-requests", 3],
    ["queuedBytes", "sluice-queued-bytes", 3210],
    ["queuedTokens", "sluice-queued-tokens", 321],
    ["predictedWaitSeconds", "sluice-predicted-wait-seconds", 2.5],
  ])("answer with the target and the figure of %s", (metric, metricName, value) => {
    const driven = new Driven();
    driven.enter(100, 10, 1);
    driven.enter(0, 200, 20);
    driven.enter(-10, 3000, 300);
    driven.clock.advance(2500);
    const [spec] = driven.call("GetMetricSpec", { metric, target: "1.5" }).stream.messages();
    expect(decodeScaler("GetMetricSpecResponse", spec!)).toEqual({
      metricSpecs: [{ metricName, targetSize: 2, targetSizeFloat: 1.5 }],
    });
    const metricValues = [{ metricName, metricValue: Math.ceil(value), metricValueFloat: value }];
    expect(driven.figure({ metric, target: "1.5" }, metricName)).toEqual({ metricValues });
    expect(driven.figure({ metric, target: "1.5" })).toEqual({ metricValues });
  });

  it("count the requests of a priority and above, where the metadata names one", () => {
    const driven = new Driven();
    for (const priority of [100, 0, 0, -10]) driven.enter(priority);
    const counted = (priority: string): unknown => driven.figure({ target: "1", priority });
    const value = (metricValue: number) => ({
      metricValues: [{ metricName: "sluice-queued-requests", metricValue, metricValueFloat: metricValue }],
    });
    expect(["-11", "0", "100", "101"].map(counted)).toEqual([4, 3, 1, 0].map(value));
  });

  it("refuse the name of another metric", () => {
    const call = new Driven().metrics({ target: "1" }, "sluice-queued-bytes");
    expect(call.end).toEqual({
      status: GRPC_STATUS.invalidArgument,
      message: 'the metadata selects the metric sluice-queued-requests, but the call asks for "sluice-queued-bytes"',
    });
  });
});

const METHODS: readonly Method[] = ["IsActive", "StreamIsActive", "GetMetricSpec"];

describe("each method", () => {
  const ends = (driven: Driven, metadata: Metadata): unknown[] =>
    [...METHODS.map((method) => driven.call(method, metadata)), driven.metrics(metadata)].map(({ end }) => end);
  const all = (status: number, message: string): unknown[] => Array.from({ length: 4 }, () => ({ status, message }));

  it("refuses wrong metadata and names the fault", () => {
    expect(ends(new Driven(), { metrics: "queuedBytes", target: "1" })).toEqual(
      all(GRPC_STATUS.invalidArgument, 'unknown key "metrics" in the metadata of the trigger; did you mean `metric`?'),
    );
  });

  it("names the feature gate while flow control is off", () => {
    const driven = new Driven();
    driven.source.backlog = undefined;
    expect(ends(driven, { target: "1" })).toEqual(
      all(
        GRPC_STATUS.failedPrecondition,
        "flow control is off, so no request waits; add flowControl to the featureGates of the configuration",
      ),
    );
  });

  it("is unavailable on a replica that does not lead: its empty queues must not end the servers", () => {
    const driven = new Driven();
    driven.leads = false;
    expect(ends(driven, { target: "1" })).toEqual(
      all(GRPC_STATUS.unavailable, "this replica is not the leader and has no queues; ask the leader"),
    );
  });

  it("is unavailable during the drain", () => {
    const driven = new Driven();
    driven.scaler.drain();
    expect(ends(driven, { target: "1" })).toEqual(
      all(GRPC_STATUS.unavailable, "the process drains; ask another replica"),
    );
  });

  it("ends with INTERNAL when the request cannot be read or does not come", () => {
    const { scaler } = new Driven();
    expect(new Call(scaler, "IsActive", Buffer.from("0a05", "hex")).end.status).toBe(GRPC_STATUS.internal);
    const stream = new FakeGrpcStream();
    scaler.handlers().get("/externalscaler.ExternalScaler/IsActive")!(stream).halfClosed();
    expect(stream.status).toBe(GRPC_STATUS.internal);
  });
});

describe("StreamIsActive", () => {
  it("sends the state, work at once, and its end within a second", () => {
    const driven = new Driven();
    const call = driven.watch();
    expect(call.states).toEqual([false]);
    driven.enter();
    // No time has passed.
    expect(call.states).toEqual([false, true]);
    driven.enter();
    driven.leave();
    driven.leave();
    driven.source.inFlight = 2;
    driven.clock.advance(5000);
    expect(call.states).toEqual([false, true]);
    driven.source.inFlight = 0;
    driven.clock.advance(1000);
    expect(call.states).toEqual([false, true, false]);
    driven.enter();
    expect(call.states).toEqual([false, true, false, true]);
    expect([call.end.status, call.stream.breaches]).toEqual([undefined, []]);
  });

  it("notices work that did not come through the queue within a second", () => {
    const driven = new Driven();
    const call = driven.watch();
    driven.source.inFlight = 1;
    driven.clock.advance(1000);
    expect(call.states).toEqual([false, true]);
  });

  it("follows the priority of its trigger", () => {
    const driven = new Driven();
    const [urgent, any] = [driven.watch({ target: "5", priority: "100" }), driven.watch({ target: "5" })];
    driven.enter(0);
    expect([urgent.states, any.states]).toEqual([[false], [false, true]]);
    driven.enter(100);
    expect([urgent.states, any.states]).toEqual([
      [false, true],
      [false, true],
    ]);
  });

  it("sends a client that reads slowly the latest state only, so that nothing piles up (bound)", () => {
    const driven = new Driven();
    const call = driven.watch();
    call.stream.full = true;
    driven.enter();
    for (let i = 0; i < 100; i++) {
      driven.leave();
      driven.clock.advance(1000);
      driven.enter();
    }
    expect(call.states).toEqual([false, true]);
    driven.leave();
    call.stream.drain();
    expect(call.states).toEqual([false, true, false]);
    driven.enter();
    expect(call.states).toEqual([false, true, false, true]);
  });

  it("ends on the drain, when flow control ends, and when another replica leads", () => {
    const driven = new Driven();
    const first = driven.watch();
    driven.leads = false;
    driven.clock.advance(1000);
    expect(first.end.status).toBe(GRPC_STATUS.unavailable);
    driven.leads = true;
    const second = driven.watch();
    driven.source.backlog = undefined;
    driven.clock.advance(1000);
    expect(second.end.status).toBe(GRPC_STATUS.failedPrecondition);
    driven.source.backlog = driven.backlog;
    const third = driven.watch();
    driven.scaler.drain();
    expect(third.end).toEqual({ status: GRPC_STATUS.unavailable, message: "the process drains; ask another replica" });
    driven.enter();
    driven.clock.advance(2000);
    expect([first, second, third].flatMap(({ stream }) => stream.breaches)).toEqual([]);
    expect(third.states).toEqual([false]);
  });

  it("leaves nothing behind when its client goes", () => {
    const driven = new Driven();
    const call = driven.watch();
    call.cancel();
    driven.enter();
    driven.clock.advance(10_000);
    expect([call.states, driven.clock.pending]).toEqual([[false], 0]);
    // A client that does not read, and goes.
    const slow = driven.watch();
    slow.stream.full = true;
    driven.leave();
    driven.clock.advance(1000);
    slow.cancel();
    driven.enter();
    slow.stream.drain();
    expect(slow.states).toEqual([true, false]);
  });

  it("has 8 streams for one ScaledObject and 64 for all; the others and the other methods go on (bound)", () => {
    const driven = new Driven();
    const open = (count: number, name: string): Call[] =>
      Array.from({ length: count }, () => driven.watch({ target: "5" }, name));
    const exhausted = (calls: readonly Call[]): number =>
      calls.filter(({ end }) => end.status === GRPC_STATUS.resourceExhausted).length;
    const greedy = open(20, "greedy");
    expect(exhausted(greedy)).toBe(20 - MAX_STREAMS_PER_OBJECT);
    const others = Array.from({ length: 8 }, (_, n) => open(8, `other-${n}`)).flat();
    expect(exhausted(others)).toBe(8 + 64 - MAX_STREAMS);
    expect(driven.call("IsActive").states).toEqual([false]);
    greedy[0]!.cancel();
    const [next] = open(1, "late");
    expect(next!.states).toEqual([false]);
    expect(exhausted(open(1, "too-late"))).toBe(1);
    driven.enter();
    expect(next!.states).toEqual([false, true]);
  });
});
