import { describe, expect, it } from "vitest";
import { endpointOf, requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { FlowChoice, QueuedFlow, SaturationDetector } from "../../base/plugin/flow-kinds.ts";
import { FlowControl } from "./flow-control.ts";
import { queuesView } from "./queues-view.ts";
import { FLOW_RULES } from "./rules.ts";
import type { BandSettings, FlowControlSettings } from "./settings.ts";

const NO_LIMIT = Number.POSITIVE_INFINITY;
const ONE_QUEUE: BandSettings = {
  ...{ maxBytes: 1000, maxRequests: 100, ttl: 60_000 },
  ordering: { rank: ({ enqueuedAt }) => enqueuedAt },
  fairness: {
    oneQueue: true,
    choice: () => {
      throw new Error("one queue needs no choice");
    },
  },
};

/** Chooses the flow that has been there longest. */
class Oldest implements FlowChoice {
  readonly #flows = new Set<QueuedFlow>();

  joined(flow: QueuedFlow): void {
    this.#flows.add(flow);
  }

  left(flow: QueuedFlow): void {
    this.#flows.delete(flow);
  }

  next(): QueuedFlow {
    return [...this.#flows][0]!;
  }

  served(): void {}
}
const QUEUES: BandSettings = { ...ONE_QUEUE, maxRequests: NO_LIMIT, fairness: { choice: () => new Oldest() } };

function started(settings: Partial<FlowControlSettings>, pool: readonly Endpoint[] = [endpointOf(0)]) {
  const clock = new VirtualClock();
  const none = (): void => {};
  const events = {
    entered: none,
    left: none,
    enqueued: none,
    cycled: none,
    passed: none,
    strangePriority: none,
    failed: none,
    revoked: none,
    revocationEnded: none,
  };
  const flowControl = new FlowControl({
    ...{ clock, events, pool: () => pool },
    settings: {
      ...{ maxBytes: NO_LIMIT, maxRequests: 5000, noEndpointTtl: 60_000, detector: { saturation: () => 2 } },
      ...{ bands: new Map(), template: ONE_QUEUE, negativeTemplate: ONE_QUEUE, usageLimit: { limit: none } },
      rules: FLOW_RULES[""],
      ...settings,
    },
  });
  const enter = (fairnessId: string, priority = 0, bytes = 10) =>
    flowControl.enter(requestOf("p", { fairnessId, priority }), bytes, 0, { dispatched: none, evicted: none });
  return { clock, flowControl, enter, view: () => queuesView(flowControl) };
}

describe("the view of queues", () => {
  it.each([
    ["of their own", QUEUES, null],
    ["that they share", ONE_QUEUE, 100],
  ] as const)("names the longest flows in queues %s, with the wait of the next request", (_name, band, limit) => {
    const { clock, enter, view } = started({ bands: new Map([[0, band]]) });
    enter("a");
    clock.advance(1000);
    for (const id of ["b", "b", "b", "a"]) enter(id);
    clock.advance(500);
    expect(view().bands[0]).toEqual({
      ...{ priority: 0, requests: 5, bytes: 50, maxRequests: limit, maxBytes: 1000, ceiling: 1, open: false, flows: 2 },
      longest: [
        { fairnessId: "b", requests: 3, headWaitMs: 500 },
        { fairnessId: "a", requests: 2, headWaitMs: 1500 },
      ],
    });
  });

  it("takes the request that leaves next for the head, also where that is not the oldest", () => {
    const smallest = { ...ONE_QUEUE, ordering: { rank: ({ bytes }: { bytes: number }) => bytes } };
    const { clock, enter, view } = started({ bands: new Map([[0, smallest]]) });
    for (const [id, bytes] of [
      ["a", 10],
      ["b", 50],
      ["b", 20],
    ] as const) {
      enter(id, 0, bytes);
      clock.advance(1000);
    }
    expect(view().bands[0]!.longest).toEqual([
      { fairnessId: "b", requests: 2, headWaitMs: 1000 },
      { fairnessId: "a", requests: 1, headWaitMs: 3000 },
    ]);
  });

  it("names 16 flows of a band, and 256 characters of a fairness ID (bound)", () => {
    const { enter, view } = started({ bands: new Map([[0, QUEUES]]) });
    for (let i = 0; i < 20; i++) enter(`${i}`.padStart(300, "x"));
    const [band] = view().bands;
    expect([band!.flows, band!.longest.length, band!.longest[0]!.fairnessId.length]).toEqual([20, 16, 256]);
  });

  it("shows each band with its ceiling, and whether it dispatches", () => {
    const limit = (_saturation: number, _priorities: readonly number[], ceilings: number[]): void => {
      ceilings[1] = 0.5;
    };
    const detector = { saturation: () => 0.6 };
    const { enter, view } = started({ bands: new Map([[10, ONE_QUEUE]]), usageLimit: { limit }, detector });
    enter("a", 10);
    enter("b", 0);
    const { bands, undecided, ...all } = view();
    expect(bands.map(({ priority, ceiling, open, requests }) => [priority, ceiling, open, requests])).toEqual([
      [10, 1, true, 0],
      [0, 0.5, false, 1],
    ]);
    expect(undecided).toBe(1);
    expect(all).toEqual({
      ...{ requests: 1, bytes: 10, maxRequests: 5000, maxBytes: null },
      saturation: { decode: 0.6, effective: 0.6, expected: 0.6 },
    });
  });

  it("shows each stage, and what is expected once all that was sent counts", () => {
    const prefill = endpointOf(0, { labels: { "llm-d.ai/role": "prefill" } });
    const detector: SaturationDetector = {
      saturation: (endpoints) => (endpoints.includes(prefill) ? 0.25 : 0.5),
      expected: (_endpoints, _now, further) => 0.5 + further,
    };
    const { enter, view } = started({ detector }, [prefill, endpointOf(1)]);
    expect(view().saturation).toEqual({ prefill: 0.25, decode: 0.5, effective: 0.5, expected: 0.5 });
    enter("a");
    expect(view()).toMatchObject({ saturation: { effective: 0.5, expected: 1.5 }, undecided: 1, requests: 0 });
  });

  it("says that the detector failed, and shows the queues all the same", () => {
    const saturation = (): never => {
      throw new Error("broken");
    };
    const { view } = started({ detector: { saturation } });
    expect(view()).toMatchObject({
      saturation: { error: "the saturation detector failed: broken" },
      bands: [{ priority: 0, open: true }],
    });
  });
});
