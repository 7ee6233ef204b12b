import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { DiscoveredPool, RunningDiscovery } from "../../pool/discovery/pool-filler.ts";
import { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import { EndpointsSwitch } from "./endpoints-switch.ts";

function setUp() {
  const registry = new EndpointRegistry({ clock: new VirtualClock(), random: new SeededRandom(1) });
  const events: string[] = [];
  /** A discovery that answers with one endpoint of its name, or fails. */
  const discovery =
    (name: string, fails = false, breaks = false) =>
    (pool: DiscoveredPool): RunningDiscovery => ({
      async start() {
        if (fails) throw new Error(`${name} fails`);
        pool.apply([{ namespace: "n", name, address: name, port: 1, rank: 0, labels: {} }]);
        if (breaks) throw new Error(`${name} cannot be followed`);
      },
      close: () => void events.push(`${name} closed`),
    });
  const found = (): string[] => registry.list().map(({ name }) => name);
  return { endpoints: new EndpointsSwitch(registry, (error) => events.push(String(error))), discovery, events, found };
}

describe("a switch of the source of endpoints", () => {
  it("ends the old source in the step in which the new one fills the pool", async () => {
    const { endpoints, discovery, events, found } = setUp();
    await endpoints.use(discovery("a"));
    await endpoints.use(discovery("b"), () => events.push(`taken with ${found()}`));
    expect([found(), events]).toEqual([["b"], ["taken with a", "a closed"]]);
    endpoints.close();
    expect(events.at(-1)).toBe("b closed");
  });

  it("keeps the old source where the new one has no answer", async () => {
    const { endpoints, discovery, events, found } = setUp();
    await endpoints.use(discovery("a"));
    const taken = (): void => void events.push("taken");
    await expect(endpoints.use(discovery("b", true), taken)).rejects.toThrow("b fails");
    expect([found(), events]).toEqual([["a"], ["b closed"]]);
  });

  it("keeps the old source where the rest of the change fails", async () => {
    const { endpoints, discovery, events, found } = setUp();
    await endpoints.use(discovery("a"));
    const fail = (): void => {
      throw new Error("no licence");
    };
    await expect(endpoints.use(discovery("b"), fail)).rejects.toThrow("no licence");
    expect([found(), events]).toEqual([["a"], ["b closed"]]);
  });

  it("is no failure where the new source has answered and then breaks: its change is in force, and the fault is told", async () => {
    const { endpoints, discovery, events, found } = setUp();
    await endpoints.use(discovery("a"));
    await endpoints.use(discovery("b", false, true), () => events.push("taken"));
    expect([found(), events]).toEqual([["b"], ["taken", "a closed", "Error: b cannot be followed"]]);
    endpoints.close();
    expect(events.at(-1)).toBe("b closed");
  });

  it("ends a source that answers after the end", async () => {
    const { endpoints, discovery, events } = setUp();
    endpoints.close();
    await endpoints.use(discovery("a"));
    expect(events).toEqual(["a closed"]);
  });
});
