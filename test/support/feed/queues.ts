/** Made-up queues, in the shapes of src/wires/admin/feed/. */
import type { MessagesFeed } from "../../../src/wires/admin/feed/messages.ts";
import type { DispatchFeed, FlowControlFeed } from "../../../src/wires/admin/feed/queues.ts";

export function flowQueuesOf(): FlowControlFeed {
  return {
    ...{
      kind: "flow-control",
      at: Date.now(),
      requests: 12,
      bytes: 71_000,
      maxRequests: null,
      maxBytes: 1 << 30,
      saturation: 0.97,
    },
    ...{ expected: 1.02, stages: {}, problem: null, leftPerSecond: 38.2, refusedPerSecond: 0.4 },
    bands: [
      {
        ...{
          priority: 10,
          requests: 2,
          bytes: 9000,
          maxRequests: null,
          maxBytes: 1 << 28,
          ceiling: 1.2,
          open: true,
          heldBy: null,
          flowCount: 1,
        },
        flows: [{ fairnessId: "team-a", requests: 2, headWaitMs: 12 }],
      },
      {
        ...{
          priority: 0,
          requests: 10,
          bytes: 62_000,
          maxRequests: null,
          maxBytes: 1 << 28,
          ceiling: 1,
          open: false,
          flowCount: 2,
        },
        heldBy: "The expected saturation of 1.02 is not below its ceiling of 1.",
        flows: [
          { fairnessId: "team-b", requests: 7, headWaitMs: 410 },
          { fairnessId: "team-c", requests: 3, headWaitMs: 90 },
        ],
      },
    ],
  };
}

export function dispatchQueuesOf(): DispatchFeed {
  return {
    ...{ kind: "dispatch", at: Date.now(), claims: 18, unwritten: 0, brokerProblem: null },
    capacities: [
      {
        ...{
          capacity: "saturation of http://prometheus:9090",
          state: "closed",
          because: "D 0.292 is not above B 0.35, with 17 of our own running",
        },
        ...{ D: 0.292, B: 0.35, maxSys: 64, unit: "requests", N: 0, own: 17, moreMayStart: 0, sampleAgeSeconds: 1.2 },
        timeline: [
          { at: Date.now() - 600_000, state: "open", because: "D 0.6 is above B 0.35" },
          { at: Date.now() - 120_000, state: "closed", because: "D 0.292 is not above B 0.35" },
        ],
      },
    ],
    queues: [
      {
        ...{
          queue: "batch",
          pool: "default",
          gate: "saturation",
          state: "closed",
          because: "the gate is closed",
          heldByGate: 3,
          capacities: ["c"],
        },
        ...{
          waiting: 412,
          claimed: 18,
          retries: 2,
          dead: 0,
          oldestAgeSeconds: 310,
          endedPerSecond: 8.2,
          etaSeconds: 52,
          ended: 1205,
        },
        ...{ nextDeadline: Math.floor(Date.now() / 1000) + 900, makesIt: true },
      },
    ],
    noMessages: null,
    pools: [{ pool: "default", gate: "none", workers: 32, running: 17 }],
  };
}

/** The next messages of a queue, one of which cannot be read. */
export function messagesOf(): Omit<MessagesFeed, "queue"> {
  const now = Math.floor(Date.now() / 1000);
  const message = (id: string | null, place: number) => ({
    ...{ id, deadline: id === null ? null : now + 600 + place, created: id === null ? null : now - 90 },
    ...{ retries: place % 2, bytes: 1200 + place },
  });
  return { mayCancel: true, at: Date.now(), messages: ["m-1", "<b>m-2</b>", null, "m".repeat(200)].map(message) };
}
