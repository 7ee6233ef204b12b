import { describe, expect, it } from "vitest";
import { FakeServer, recordingLog, refusal } from "../../../test/support/kubernetes/fake-api.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { ApiRequest } from "./api-client.ts";
import { LeaderElector, type Lease } from "./leader-elector.ts";

const PATH = "/apis/coordination.k8s.io/v1/namespaces/ml/leases/epp";
const WALL = Date.parse("2026-03-01T10:00:00Z");

/** One Lease of an API server, with versions and conflicts. */
class LeaseServer extends FakeServer {
  lease: (Lease & { metadata: Record<string, unknown> }) | undefined;
  /** Requests of these identities fail; "hang" = no answer. */
  readonly away = new Map<string, "refuse" | "hang">();
  readonly #clock: VirtualClock;
  #version = 0;

  constructor(clock: VirtualClock) {
    super((request) => this.#answer(request));
    this.#clock = clock;
  }

  /** What one participant sees of it. */
  for(identity: string) {
    return {
      server: this.server,
      request: (request: ApiRequest): Promise<unknown> => {
        const away = this.away.get(identity);
        if (away === "refuse") return Promise.reject(refusal(0, "", { message: "it cannot be reached" }));
        if (away === "hang")
          return new Promise((_, reject) => {
            const fail = () => reject(refusal(0));
            this.#clock.after(request.timeout ?? 30_000, fail);
            request.signal?.addEventListener("abort", fail);
          });
        return this.request(request);
      },
      stream: () => this.stream(),
      close: () => this.close(),
    };
  }

  #answer({ method, path, body }: ApiRequest): unknown {
    if (method === "POST") {
      if (this.lease !== undefined) throw refusal(409, "AlreadyExists");
      this.lease = body as typeof this.lease;
    } else {
      expect(path).toBe(PATH);
      if (this.lease === undefined) throw refusal(404, "NotFound");
      if (method === "GET") return structuredClone(this.lease);
      const sent = body as NonNullable<typeof this.lease>;
      if (sent.metadata["resourceVersion"] !== this.lease.metadata["resourceVersion"]) throw refusal(409, "Conflict");
      this.lease = sent;
    }
    this.lease = structuredClone(this.lease!);
    this.lease.metadata["resourceVersion"] = `${++this.#version}`;
    return structuredClone(this.lease);
  }
}

function setUp(identities: readonly string[], wallOffset = 0, seed = 1) {
  const clock = new VirtualClock(WALL);
  const server = new LeaseServer(clock);
  const { log, at } = recordingLog();
  const told: string[] = [];
  const electors = identities.map((identity, i) => {
    const own = {
      now: () => clock.now(),
      wall: () => clock.wall() + i * wallOffset,
      after: clock.after.bind(clock),
      soon: clock.soon.bind(clock),
    };
    return new LeaderElector({
      api: server.for(identity),
      namespace: "ml",
      name: "epp",
      identity,
      clock: own,
      random: new SeededRandom(seed + i),
      log,
      onChange: (leading) => void told.push(`${identity} ${leading} at ${Math.round(clock.now() / 1000)}`),
    });
  });
  return { clock, server, told, electors, at };
}

describe("LeaderElector", () => {
  it("R-36: takes a lease that is not there, with the fields and times of client-go, and renews it every 2 s", async () => {
    const { clock, server, told, electors } = setUp(["a"]);
    electors[0]!.start();
    await clock.advanceAsync(0);
    expect(electors[0]).toMatchObject({ leading: true, holder: "a" });
    const spec = {
      holderIdentity: "a",
      leaseDurationSeconds: 15,
      acquireTime: "2026-03-01T10:00:00.000000Z",
      renewTime: "2026-03-01T10:00:00.000000Z",
      leaseTransitions: 0,
    };
    expect(server.lease).toEqual({
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { namespace: "ml", name: "epp", resourceVersion: "1" },
      spec,
    });
    await clock.advanceAsync(4500);
    expect(server.lease?.spec).toEqual({ ...spec, renewTime: "2026-03-01T10:00:04.000000Z" });
    expect(server.requests.map(({ method }) => method)).toEqual(["GET", "POST", "PUT", "PUT"]);
    expect(told).toEqual(["a true at 0"]);
    await electors[0]!.release();
  });

  it("R-36: there is one leader at any moment, and the other takes over within 20 s of its last renewal", async () => {
    const { clock, server, told, electors } = setUp(["a", "b", "c"]);
    for (const elector of electors) elector.start();
    for (let i = 0; i < 60; i++) {
      await clock.advanceAsync(1000);
      expect(electors.filter(({ leading }) => leading).length).toBe(1);
    }
    expect(told.length).toBe(1);
    const first = electors.findIndex(({ leading }) => leading);
    // As after SIGKILL.
    server.away.set("abc"[first]!, "refuse");
    let others = 0;
    for (let i = 0; i < 20; i++) {
      await clock.advanceAsync(1000);
      expect(electors.filter(({ leading }) => leading).length).toBeLessThanOrEqual(1);
      others = electors.filter(({ leading }, each) => leading && each !== first).length;
    }
    expect(others).toBe(1);
    expect(server.lease?.spec.leaseTransitions).toBe(1);
    await Promise.all(electors.map((elector) => elector.release()));
  });

  it("R-36: that holds wherever its last renewal falls between two attempts of the other", async () => {
    for (let seed = 1; seed <= 40; seed++) {
      const { clock, server, electors } = setUp(["a", "b"], 0, seed);
      electors[0]!.start();
      await clock.advanceAsync(100);
      electors[1]!.start();
      await clock.advanceAsync(30_000);
      const { renewTime } = server.lease!.spec;
      server.away.set("a", "refuse");
      await clock.advanceAsync(Date.parse(renewTime) + 20_000 - clock.wall());
      expect([seed, electors.map(({ leading }) => leading)]).toEqual([seed, [false, true]]);
      await electors[1]!.release();
    }
  });

  it("R-36: a leader that cannot renew steps down after 10 s, before anybody else may take over, also when nothing answers", async () => {
    for (const how of ["refuse", "hang"] as const) {
      const { clock, server, told, electors, at } = setUp(["a"]);
      electors[0]!.start();
      await clock.advanceAsync(3000);
      server.away.set("a", how);
      await clock.advanceAsync(8999);
      expect(electors[0]!.leading).toBe(true);
      await clock.advanceAsync(1);
      expect(electors[0]!.leading).toBe(false);
      expect(told).toEqual(["a true at 0", "a false at 12"]);
      expect(at("warn")).toContain('this replica lost the lease epp: not renewed for 10 s {"identity":"a"}');
      if (how === "refuse") {
        server.away.clear();
        await clock.advanceAsync(5000);
        expect(told.length).toBe(3);
        expect(server.lease?.spec.leaseTransitions).toBe(0);
      }
      const released = electors[0]!.release();
      await clock.advanceAsync(10_000);
      await released;
    }
  });

  it("R-36: a process that slept through its deadline does not take itself for the leader", async () => {
    const { clock, electors } = setUp(["a"]);
    electors[0]!.start();
    await clock.advanceAsync(1000);
    // Time went on, and no timer could fire.
    let now = 9_999;
    clock.now = () => now;
    expect(electors[0]!.leading).toBe(true);
    now = 10_000;
    expect(electors[0]!.leading).toBe(false);
  });

  it("R-36: clocks that differ by hours change nothing", async () => {
    const { clock, server, electors } = setUp(["a", "b"], 5 * 3_600_000);
    electors[0]!.start();
    await clock.advanceAsync(1000);
    electors[1]!.start();
    await clock.advanceAsync(60_000);
    expect(electors.map(({ leading }) => leading)).toEqual([true, false]);
    expect(electors[1]!.holder).toBe("a");
    server.away.set("a", "refuse");
    await clock.advanceAsync(20_000);
    expect(electors.map(({ leading }) => leading)).toEqual([false, true]);
    await Promise.all(electors.map((elector) => elector.release()));
  });

  it("R-36: leaves a lease alone that it has just seen for the first time, however old its times look", async () => {
    const { clock, server, electors } = setUp(["b"]);
    server.lease = {
      metadata: { namespace: "ml", name: "epp", resourceVersion: "0", labels: { kept: "yes" } },
      spec: {
        holderIdentity: "a",
        leaseDurationSeconds: 15,
        acquireTime: "2001-01-01T00:00:00.000000Z",
        renewTime: "2001-01-01T00:00:00.000000Z",
        leaseTransitions: 4,
      },
    };
    electors[0]!.start();
    await clock.advanceAsync(14_999);
    expect(electors[0]!.leading).toBe(false);
    await clock.advanceAsync(5000);
    expect(electors[0]!.leading).toBe(true);
    expect(server.lease).toMatchObject({
      metadata: { labels: { kept: "yes" } },
      spec: { holderIdentity: "b", leaseTransitions: 5 },
    });
    await electors[0]!.release();
  });

  it("R-36: loses the race quietly, and steps down at once when somebody else holds the lease", async () => {
    const { clock, server, told, electors, at } = setUp(["a"]);
    electors[0]!.start();
    await clock.advanceAsync(1000);
    server.lease = {
      ...server.lease!,
      metadata: { ...server.lease!.metadata, resourceVersion: "foreign" },
      spec: { ...server.lease!.spec, holderIdentity: "b" },
    };
    await clock.advanceAsync(1000);
    expect(told).toEqual(["a true at 0", "a false at 2"]);
    expect(electors[0]!.holder).toBe("b");
    expect(at("warn")).toEqual(['this replica lost the lease epp: b holds it {"identity":"a"}']);
    await electors[0]!.release();
    expect(server.lease.spec.holderIdentity).toBe("b");
  });

  it("R-36: release steps down, gives the lease back, and the next one takes it at its next attempt", async () => {
    const { clock, server, told, electors } = setUp(["a", "b"]);
    electors[0]!.start();
    await clock.advanceAsync(1000);
    electors[1]!.start();
    await clock.advanceAsync(10_000);
    const released = electors[0]!.release();
    expect(told).toEqual(["a true at 0", "a false at 11"]);
    await released;
    expect(server.lease?.spec).toMatchObject({ holderIdentity: "", leaseDurationSeconds: 1, leaseTransitions: 0 });
    await clock.advanceAsync(4400);
    expect(electors[1]!.leading).toBe(true);
    expect(server.lease?.spec).toMatchObject({ holderIdentity: "b", leaseDurationSeconds: 15, leaseTransitions: 1 });
    const { length } = server.requests;
    await electors[1]!.release();
    await clock.advanceAsync(100_000);
    expect(server.requests.length).toBe(length + 2);
    expect(told.length).toBe(4);
  });

  it("release never fails: a server that is away is told in the log, and the lease ends by itself", async () => {
    const { clock, server, electors, at } = setUp(["a"]);
    electors[0]!.start();
    await clock.advanceAsync(1000);
    server.away.set("a", "refuse");
    await electors[0]!.release();
    expect(at("warn").at(-1)).toContain("was not released; others wait until it expires: it cannot be reached");
  });

  it("says what to do when it may not read leases, not at every attempt", async () => {
    const server = new FakeServer(() => {
      throw refusal(403, "Forbidden", { message: "give it a Role with get on leases" });
    });
    const clock = new VirtualClock();
    const { log, at } = recordingLog();
    const elector = new LeaderElector({
      api: server,
      namespace: "ml",
      name: "epp",
      identity: "a",
      clock,
      random: new SeededRandom(1),
      log,
      onChange() {},
    });
    elector.start();
    await clock.advanceAsync(29_000);
    expect(server.requests.length).toBeGreaterThan(5);
    expect(at("error")).toEqual(["the lease epp cannot be read or acquired: give it a Role with get on leases {}"]);
    await elector.release();
  });
});
