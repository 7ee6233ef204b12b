import { expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { PeersState } from "./peers.ts";
import { FIRST_CATCH_UP, PeersReadiness } from "./peers-readiness.ts";

const WHY = "the replica is still reading what its peers know";

it("is not ready until the first catch-up, and then stays ready, also without the store", () => {
  const peers: { state: PeersState } = { state: "connecting" };
  const readiness = new PeersReadiness(peers, new VirtualClock());
  expect(readiness.unready()).toBe(WHY);
  peers.state = "catching-up";
  expect(readiness.unready()).toBe(WHY);
  peers.state = "in-step";
  expect(readiness.unready()).toBeUndefined();
  peers.state = "away";
  expect(readiness.unready()).toBeUndefined();
});

it("is ready after 5 s, whatever the store does", () => {
  const clock = new VirtualClock();
  const peers: { state: PeersState } = { state: "connecting" };
  const readiness = new PeersReadiness(peers, clock);
  clock.advance(FIRST_CATCH_UP - 1);
  expect(readiness.unready()).toBe(WHY);
  clock.advance(1);
  expect(readiness.unready()).toBeUndefined();
  expect(FIRST_CATCH_UP).toBe(5000);
});
