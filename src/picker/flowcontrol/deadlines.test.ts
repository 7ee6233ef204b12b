import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { FlowRig } from "../../../test/support/flowcontrol/flow-rig.cases.ts";
import { PLAIN } from "../../../test/support/flowcontrol/plain-policies.cases.ts";
import { poll } from "../../../test/support/poll.ts";

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
