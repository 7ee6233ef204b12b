import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { EndpointSpec } from "./pool-endpoint.ts";
import { EndpointRegistry, type RegistryOptions } from "./registry.ts";

function registry(options: Partial<RegistryOptions> = {}): EndpointRegistry {
  return new EndpointRegistry({ clock: new VirtualClock(), random: new SeededRandom(1), ...options });
}

function spec(name: string, address = "10.0.0.1", port = 8000): EndpointSpec {
  return { namespace: "default", name, address, port, rank: 0, labels: {} };
}

function names(endpoints: readonly { readonly name: string }[]): string[] {
  return endpoints.map((endpoint) => endpoint.name);
}

describe("EndpointRegistry membership", () => {
  it("finds endpoints by id and by host and port, whatever the spelling of IPv6", () => {
    const pool = registry();
    pool.apply([spec("a"), spec("b", "fd00::1", 9000)]);
    expect(pool.get("default/a")?.hostPort).toBe("10.0.0.1:8000");
    expect(pool.byHostPort("10.0.0.1:8000")?.name).toBe("a");
    expect(pool.byHostPort("[fd00:0:0::1]:9000")?.name).toBe("b");
    for (const unknown of ["10.0.0.1:8001", "10.0.0.2:8000", "10.0.0.1", "", ":", "[fd00::1", "fd00::1:9000"])
      expect(pool.byHostPort(unknown)).toBeUndefined();
  });

  it("replaces the list on change and only then", () => {
    const pool = registry();
    pool.apply([spec("a")]);
    const list = pool.list();
    pool.apply([spec("a")]);
    expect(pool.list()).toBe(list);
    pool.upsert(spec("b"));
    expect(names(list)).toEqual(["a"]);
    expect(names(pool.list())).toEqual(["a", "b"]);
  });

  it("keeps state and load of an endpoint whose labels change, and makes a new one when the address changes", () => {
    const pool = registry();
    const first = pool.upsert(spec("a"))!;
    pool.inFlight.open(first, 10);
    pool.attemptFailed(first, "connect", "refused");
    expect(pool.upsert({ ...spec("a"), labels: { tier: "gold" } })).toBe(first);
    expect(first).toMatchObject({ labels: { tier: "gold" }, state: "down", inFlight: { requests: 1, tokens: 10 } });
    const moved = pool.upsert(spec("a", "10.0.0.2"))!;
    expect(moved).not.toBe(first);
    expect(moved).toMatchObject({ state: "up", cause: "not scraped yet", inFlight: { requests: 0, tokens: 0 } });
    expect(first.removed).toBe(true);
    expect(pool.byHostPort("10.0.0.1:8000")).toBeUndefined();
  });

  it("renews where the metrics page is, and keeps endpoint and object where that is the same (R-57)", () => {
    const pool = registry();
    const first = pool.upsert(spec("a"))!;
    const own = first.metricsHost;
    expect(own).toEqual({ address: first.address, port: first.port });
    pool.upsert({ ...spec("a"), labels: { tier: "gold" } });
    expect(first.metricsHost).toBe(own);
    const elsewhere = { address: "metrics.example", port: 9090 };
    expect(pool.upsert({ ...spec("a"), metricsHost: elsewhere })).toBe(first);
    pool.upsert({ ...spec("a"), metricsHost: { ...elsewhere } });
    expect(first.metricsHost).toBe(elsewhere);
    pool.upsert(spec("a"));
    expect(first.metricsHost).toEqual(own);
  });

  it("applies upserts in order, then deletions; the last of a duplicate id wins and does not churn", () => {
    const pool = registry();
    const events: string[] = [];
    pool.onAdded((endpoint) => events.push(`+${endpoint.name}`));
    pool.onRemoved((endpoint) => events.push(`-${endpoint.name}`));
    expect(pool.apply([spec("a"), spec("b")])).toEqual({ added: 2, removed: 0, refused: 0 });
    expect(pool.apply([spec("c"), spec("b")])).toEqual({ added: 1, removed: 1, refused: 0 });
    expect(events).toEqual(["+a", "+b", "+c", "-a"]);
    const twice = [spec("b", "10.0.0.8"), spec("b", "10.0.0.9"), spec("c")];
    expect(pool.apply(twice)).toEqual({ added: 1, removed: 1, refused: 0 });
    expect(pool.get("default/b")?.address).toBe("10.0.0.9");
    expect(pool.apply(twice)).toEqual({ added: 0, removed: 0, refused: 0 });
    pool.apply([]);
    expect(pool.list()).toEqual([]);
  });

  it("hands out dense slots, reuses them, and tells of the removal before the slot is free again", () => {
    const pool = registry({ maxEndpoints: 3 });
    pool.apply([spec("a"), spec("b"), spec("c")]);
    expect(pool.list().map((endpoint) => endpoint.slot)).toEqual([0, 1, 2]);
    pool.onRemoved((endpoint) => expect(pool.get(endpoint.id)).toBeUndefined());
    pool.remove("default/b");
    expect(pool.upsert(spec("d"))?.slot).toBe(1);
  });

  it("refuses endpoints over its bound, says so, and takes them once there is room", () => {
    const refused: string[] = [];
    const pool = registry({ maxEndpoints: 2, onRefused: (id, max) => refused.push(`${id} ${max}`) });
    expect(pool.apply([spec("a"), spec("b"), spec("c")])).toEqual({ added: 2, removed: 0, refused: 1 });
    expect(refused).toEqual(["default/c 2"]);
    expect(pool.apply([spec("c"), spec("d")])).toEqual({ added: 2, removed: 2, refused: 0 });
    expect(names(pool.list())).toEqual(["c", "d"]);
  });

  it("holds 4,096 by default", () => {
    const pool = registry();
    const specs = Array.from({ length: 4097 }, (_, i) => spec(`e${i}`, `10.0.${i >> 8}.${i & 255}`));
    expect(pool.apply(specs)).toEqual({ added: 4096, removed: 0, refused: 1 });
  });

  it("finds the one that is left when two share an address and the first goes", () => {
    const pool = registry();
    pool.apply([spec("a"), spec("b")]);
    pool.remove("default/a");
    expect(pool.byHostPort("10.0.0.1:8000")?.name).toBe("b");
  });

  it("stops telling after the subscription ended", () => {
    const pool = registry();
    const seen: string[] = [];
    const stop = pool.onAdded((endpoint) => seen.push(endpoint.name));
    pool.upsert(spec("a"));
    stop();
    pool.upsert(spec("b"));
    expect(seen).toEqual(["a"]);
  });
});

describe("EndpointRegistry.candidates", () => {
  function pool(): EndpointRegistry {
    const made = registry();
    made.apply([spec("a1"), spec("a2", "10.0.0.1", 8001), spec("b", "10.0.0.2"), spec("six", "fd00::1")]);
    return made;
  }

  it("returns one and the same set until the pool changes", () => {
    const made = pool();
    const set = made.candidates();
    expect(set.endpoints).toBe(made.list());
    expect(set).toMatchObject({ down: [], poolSize: 4 });
    expect(made.candidates()).toBe(set);
    made.attemptFailed(made.get("default/b")!, "connect", "refused");
    expect(made.candidates()).not.toBe(set);
    expect(made.candidates()).toBe(made.candidates());
  });

  it("matches the hint by address and, where it has one, by port (E-12)", () => {
    const made = pool();
    const chosen = (...allowed: { address: string; port: number | undefined }[]): string[] =>
      names(made.candidates(allowed).endpoints);
    expect(chosen()).toEqual([]);
    expect(chosen({ address: "10.0.0.1", port: 8001 })).toEqual(["a2"]);
    expect(chosen({ address: "10.0.0.1", port: undefined })).toEqual(["a1", "a2"]);
    expect(chosen({ address: "10.0.0.1", port: undefined }, { address: "10.0.0.1", port: 8000 })).toEqual(["a1", "a2"]);
    expect(chosen({ address: "10.0.0.1", port: 9 })).toEqual([]);
    expect(chosen({ address: "[FD00::0001]", port: 8000 })).toEqual(["six"]);
    expect(chosen({ address: "10.9.9.9", port: undefined }, { address: "garbage::", port: 1 })).toEqual([]);
    expect(made.candidates([{ address: "10.0.0.2", port: 8000 }])).toMatchObject({ down: [], poolSize: 4 });
  });

  it("leaves down endpoints out while another allowed one is not down", () => {
    const made = pool();
    made.attemptFailed(made.get("default/a1")!, "reset", "cut");
    expect(names(made.candidates().endpoints)).toEqual(["a2", "b", "six"]);
    expect(made.candidates().down.length).toBe(1);
    expect(names(made.candidates([{ address: "10.0.0.1", port: undefined }]).endpoints)).toEqual(["a2"]);
    // Alone in the hint it is all there is.
    const alone = made.candidates([{ address: "10.0.0.1", port: 8000 }]);
    expect(names(alone.endpoints)).toEqual(["a1"]);
    expect(alone.down).toEqual([]);
  });

  it("offers all when all are down, and a blind one is not down", () => {
    const made = pool();
    for (const endpoint of made.list()) made.attemptFailed(endpoint, "timeout", "late");
    expect(made.candidates().endpoints).toHaveLength(4);
    made.states.unreadable(made.get("default/b")!, "HTTP 500");
    expect(names(made.candidates().endpoints)).toEqual(["b"]);
    expect(made.candidates().down.length).toBe(3);
  });

  it("ignores late news about an endpoint that is gone", () => {
    const made = pool();
    const gone = made.get("default/a1")!;
    made.remove(gone.id);
    made.attemptFailed(gone, "connect", "refused");
    expect(gone.state).toBe("up");
  });
});
