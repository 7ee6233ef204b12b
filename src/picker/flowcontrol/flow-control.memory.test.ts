import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { flowSettings } from "../../../test/support/flow-control.ts";
import { FlowRig } from "../../../test/support/flowcontrol/flow-rig.cases.ts";
import { PLAIN } from "../../../test/support/flowcontrol/plain-policies.cases.ts";
import { poll } from "../../../test/support/poll.ts";
import { requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import type { FairnessPolicy, QueuedFlow } from "../../base/plugin/flow-kinds.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** What a request keeps alive through its waiter. */
function body(rig: FlowRig, id: string): WeakRef<Uint8Array> {
  const bytes = new Uint8Array(10_000);
  rig.enter(id, { flow: "a", dispatched: () => void bytes.length, evicted: () => void bytes.length });
  const kept = new WeakRef(bytes);
  rig.flow.cancel(rig.ticket(id));
  rig.tickets.delete(id);
  return kept;
}

describe("a request that went on at once", () => {
  it("does not keep its body until its end", async () => {
    const rig = new FlowRig();
    rig.load = 0;
    const tickets: unknown[] = [];
    const send = (): WeakRef<Uint8Array> => {
      const body = new Uint8Array(10_000);
      tickets.push(rig.flow.enter({ ...requestOf(""), body }, 1, 0, { dispatched() {}, evicted() {} }));
      return new WeakRef(body);
    };
    const sent = send();
    // Policies may hold the last one until they see the next.
    send();
    await poll("it is gone", () => {
      collectGarbage();
      return sent.deref() === undefined;
    });
    expect(tickets).toMatchObject([{ waiting: false }, { waiting: false }]);
  });
});

describe("a full band", () => {
  it("forgets the flows that have left it", async () => {
    const flows: WeakRef<QueuedFlow>[] = [];
    const fairness: FairnessPolicy = {
      choice: () => ({
        joined: (flow) => void flows.push(new WeakRef(flow)),
        left() {},
        next: () => null,
        served() {},
      }),
    };
    const { template } = flowSettings(() => 1);
    const rig = new FlowRig({}, { template: { ...template, maxRequests: 4, fairness } });
    rig.enterAll("a1 a2 a3 a4", { flow: "a" });
    for (let i = 0; i < 1000; i++) {
      rig.enter(`b${i}`);
      rig.flow.cancel(rig.ticket(`b${i}`));
      rig.enter("a5", { flow: "a" });
    }
    rig.tickets.clear();
    await poll("they are gone", () => {
      collectGarbage();
      return flows.filter((flow) => flow.deref() !== undefined).length <= 70;
    });
    expect(flows).toHaveLength(1001);
  });
});

describe("requests that have left", () => {
  it.each([
    ["at most 64 of them while one waits for any time", true, 65],
    ["none of them while no request waits", false, 0],
  ])("are kept for a while: %s", async (_, waits, most) => {
    const rig = new FlowRig({ template: { ...PLAIN.template, ttl: Number.POSITIVE_INFINITY } });
    if (waits) rig.enter("waits");
    const bodies = Array.from({ length: 1000 }, (_, i) => body(rig, `r${i}`));
    await poll("they are gone", () => {
      collectGarbage();
      return bodies.filter((kept) => kept.deref() !== undefined).length <= most;
    });
    expect(rig.counters.requests).toBe(waits ? 1 : 0);
  });
});
