import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { chatBody, SessionHarness } from "../../../test/support/session-harness.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import { BudgetWatch } from "./budget-watch.ts";

const KiB = 1024;
const BUDGET = { limit: 640 * KiB, small: 64 * KiB, reserve: 256 * KiB, minRate: KiB, window: 10_000 };
const POST: [string, string][] = [
  [":method", "POST"],
  [":path", "/v1/chat/completions"],
];

/** A core whose budget has a watch, as a process has. */
function watched(): TestCore {
  const core = new TestCore({ budget: BUDGET });
  new BudgetWatch(core.budget, core.clock, { letGo() {}, stuck() {}, moving() {} });
  return core;
}

class FakeWire {
  paused = false;
  evicted: Rejection | undefined;
  readonly address: string | undefined;
  constructor(address?: string) {
    this.address = address;
  }
  pauseRequest(): void {
    this.paused = true;
  }
  resumeRequest(): void {
    this.paused = false;
  }
  evict(rejection: Rejection): void {
    this.evicted = rejection;
  }
  clientAddress(): string | undefined {
    return this.address;
  }
}

function begun(core: TestCore, { address, headers = [] }: { address?: string; headers?: [string, string][] } = {}) {
  const wire = new FakeWire(address);
  const exchange = core.openExchange(wire);
  exchange.requestHeaders(HeaderList.of([...POST, ...headers]), false);
  return { wire, exchange };
}

/** Sends `bytes` of a body that goes on. */
function send({ exchange }: ReturnType<typeof begun>, bytes: number): void {
  expect(exchange.requestBody(Buffer.alloc(bytes, 0x20), false)).toBeUndefined();
}

describe("exchanges while the budget is spent by bodies that stall", () => {
  it("a small one in two pieces is decided at once, and so is one in a piece", () => {
    const core = watched();
    for (let i = 0; i < 10; i++) send(begun(core), 100 * KiB);
    expect(core.budget.paused).toBeGreaterThan(0);
    const small = begun(core);
    const body = Buffer.from(chatBody());
    small.exchange.requestBody(body.subarray(0, 10), false);
    expect(small.wire.paused).toBe(false);
    expect(small.exchange.requestBody(body.subarray(10), true)).toMatchObject({ kind: "routed" });
  });

  it("one that has brought all it announced is not stopped: its end may come", () => {
    const core = watched();
    for (let i = 0; i < 10; i++) send(begun(core), 100 * KiB);
    const body = Buffer.from(chatBody("x".repeat(200 * KiB)));
    const one = begun(core, { headers: [["content-length", String(body.length)]] });
    one.exchange.requestBody(body, false);
    expect(one.wire.paused).toBe(false);
    expect(one.exchange.requestBody(Buffer.alloc(0), true)).toMatchObject({ kind: "routed" });
    const late = begun(core, { headers: [["content-length", String(body.length)]] });
    late.exchange.requestBody(body.subarray(0, 1000), false);
    expect(late.wire.paused).toBe(true);
    late.exchange.requestBody(body.subarray(1000), false);
    expect(late.wire.paused).toBe(false);
  });

  it("those that stall are refused with 408 after the window, and those that waited go on", () => {
    const core = watched();
    const stalled = Array.from({ length: 4 }, () => begun(core));
    for (const each of stalled) send(each, 100 * KiB);
    const waiting = begun(core);
    send(waiting, 100 * KiB);
    expect(waiting.wire.paused).toBe(true);
    core.clock.advance(11_001);
    expect(waiting.wire.paused).toBe(false);
    const gone = stalled.filter(({ wire }) => wire.evicted !== undefined);
    // As many as it takes until no more than half is in use.
    expect(gone).toHaveLength(2);
    const { wire, exchange } = gone[0]!;
    expect(wire.evicted).toMatchObject({ reason: "body_stalled", status: 408, code: "RequestTimeout" });
    expect(wire.evicted!.detail).toMatch(/less than 1024 bytes\/s for 10 s/);
    // Whatever comes behind the refusal is dropped.
    const { used } = core.budget;
    expect(exchange.requestBody(Buffer.alloc(1000), false)).toBeUndefined();
    expect(core.budget.used).toBe(used);
    exchange.end("rejected", wire.evicted);
    expect(core.total("sluice_exchanges_total", { outcome: "rejected" })).toBe(1);
    expect(core.total("llm_d_epp_request_error_total", { error_code: "RequestTimeout" })).toBe(1);
  });

  it.each(["the wire", "x-forwarded-for"])("one address leaves room to others: known by %s", (how) => {
    const core = watched();
    const from = (address: string) =>
      how === "the wire"
        ? { address }
        : { headers: [["x-forwarded-for", `9.9.9.9, ${address}`]] as [string, string][] };
    // Within the share of a body each, so that only the address counts.
    const many = Array.from({ length: 80 }, () => begun(core, { ...from("10.0.0.1") }));
    for (const { exchange } of many) exchange.requestBody(Buffer.alloc(10 * KiB), false);
    const other = begun(core, from("10.0.0.2"));
    other.exchange.requestBody(Buffer.alloc(10 * KiB), false);
    expect(other.wire.paused).toBe(false);
    expect(core.budget.used).toBeLessThan(core.budget.settings.limit + core.budget.settings.reserve);
  });
});

describe("a session of Envoy", () => {
  it("is answered with an immediate response 408 when its body stalls, and ends", () => {
    const core = watched();
    const h = new SessionHarness(core);
    h.envoy.requestHeaders(POST);
    h.envoy.requestBody(" ".repeat(400 * KiB));
    const waiting = new SessionHarness(core);
    waiting.envoy.requestHeaders(POST);
    waiting.envoy.requestBody(" ".repeat(300 * KiB));
    expect([h.stream.paused, waiting.stream.paused]).toEqual([false, true]);
    core.clock.advance(11_001);
    const [reply] = h.take();
    expect(reply?.immediateResponse?.status?.code).toBe(408);
    expect(h.stream.status).toBe(0);
    expect(waiting.stream.paused).toBe(false);
    expect(h.wrongs).toEqual([]);
    waiting.reset();
    expect(core.budget.used).toBe(0);
  });

  it("knows its client by the attribute source.address", () => {
    const core = watched();
    const h = new SessionHarness(core);
    h.envoy.requestHeaders(POST, false, {
      attributes: { "envoy.filters.http.ext_proc": { "source.address": "10.0.0.9:4711" } },
    });
    h.envoy.requestBody(" ".repeat(100 * KiB));
    expect(core.budget.topHolders(1)).toMatchObject([{ address: "10.0.0.9", bytes: 100 * KiB }]);
    h.reset();
  });
});
