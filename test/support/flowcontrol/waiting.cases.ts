import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Answer, ask, chat, getJson, JSON_HEADERS } from "../client.ts";
import { poll } from "../poll.ts";
import type { TestProcess } from "../process.ts";
import { endpointsFile, type Sim, startSims } from "../stack.ts";

/** A picker with flow control, behind one of its wires. */
export interface Wire {
  /** Where clients send their requests. */
  readonly url: string;
  readonly adminUrl: string;
  readonly picker: TestProcess;
  stop(): Promise<unknown>;
}

/** Starts a picker with these arguments, `--endpoints` aside. */
export type StartWire = (endpoints: string, args: readonly string[]) => Promise<Wire>;

/** Requests in flight at each model server. */
const SLOTS = 2;
/** No request of these tests may wait so long. */
const PATIENT = "10m";
const OBJECTIVES = { realtime: 100, hasty: 50, shared: 20, batch: -10, few: -20 };
const NOT_SO_QUICK = ["--time-to-first-token", "1", "--inter-token-latency", "1"];

/** @param more further keys of `flowControl` */
function configuration(more = ""): string {
  return `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- { type: active-request-scorer }
- { type: max-score-picker }
- { name: slots, type: concurrency-detector, parameters: { maxConcurrency: ${SLOTS} } }
- { name: turns, type: round-robin-fairness-policy }
schedulingProfiles:
- { name: default, plugins: [{ pluginRef: active-request-scorer }, { pluginRef: max-score-picker }] }
flowControl:
  saturationDetector: { pluginRef: slots }
  defaultRequestTTL: ${PATIENT}
  ${more}
  priorityBands:
  - { priority: ${OBJECTIVES.realtime} }
  - { priority: ${OBJECTIVES.hasty}, defaultRequestTTL: 1s }
  - { priority: ${OBJECTIVES.shared}, fairnessPolicyRef: turns }
  - { priority: 0 }
  - { priority: ${OBJECTIVES.batch} }
  - { priority: ${OBJECTIVES.few}, maxRequests: 1 }
`;
}

const WITHOUT_GATE = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- { type: active-request-scorer }
- { type: max-score-picker }
schedulingProfiles:
- { name: default, plugins: [{ pluginRef: active-request-scorer }, { pluginRef: max-score-picker }] }
`;

/** A request that was sent. */
interface Sent {
  readonly id: string;
  readonly answer: Promise<Answer>;
  /** Closes the connection of its client. */
  leave(): void;
}

interface Kind {
  readonly objective?: keyof typeof OBJECTIVES;
  readonly tenant?: string;
  readonly headers?: Record<string, string>;
}

interface Queues {
  readonly requests: number;
  readonly bytes: number;
  readonly undecided: number;
  readonly bands: readonly { readonly priority: number; readonly requests: number }[];
}

/** A wire, the configuration that it follows, and those who send to it. */
class Bench {
  readonly wire: Wire;
  readonly endpoints: string;
  readonly #config: string;
  readonly #sims: readonly Sim[];
  /** Requests that may count in a metric: all that were sent. */
  sent = 0;
  readonly #clients: AbortController[] = [];

  private constructor(wire: Wire, endpoints: string, config: string, sims: readonly Sim[]) {
    this.wire = wire;
    this.endpoints = endpoints;
    this.#config = config;
    this.#sims = sims;
  }

  static async start(startWire: StartWire, sims: readonly Sim[], args: readonly string[] = []): Promise<Bench> {
    const endpoints = endpointsFile(sims.map(({ port }) => port));
    const config = join(mkdtempSync(join(tmpdir(), "sluice-waiting-")), "config.yaml");
    writeFileSync(config, configuration());
    const objectives = Object.entries(OBJECTIVES).flatMap(([name, priority]) => ["--objective", `${name}=${priority}`]);
    const wire = await startWire(endpoints, ["--config-file", config, ...objectives, ...args]);
    return new Bench(wire, endpoints, config, sims);
  }

  send(id: string, { objective, tenant, headers }: Kind = {}): Sent {
    this.sent++;
    const client = new AbortController();
    this.#clients.push(client);
    const answer = ask(`${this.wire.url}/v1/chat/completions`, {
      headers: {
        ...JSON_HEADERS,
        "x-test-id": id,
        ...(objective === undefined ? {} : { "x-llm-d-inference-objective": objective }),
        ...(tenant === undefined ? {} : { "x-llm-d-inference-fairness-id": tenant }),
        ...headers,
      },
      body: chat(id),
      signal: client.signal,
      timeoutMs: 60_000,
    });
    // A client that leaves gets no answer, and a test that failed reads none.
    answer.catch(() => {});
    return { id, answer, leave: () => client.abort() };
  }

  /** Lets all clients leave. */
  leave(): void {
    for (const client of this.#clients.splice(0)) client.abort();
  }

  /** Sends a request that has to wait, and waits until it is queued. */
  async enqueue(id: string, kind: Kind = {}): Promise<Sent> {
    const { requests } = await this.queues();
    const sent = this.send(id, kind);
    await this.queued(requests + 1);
    return sent;
  }

  /** Occupies all slots of one model server, until the clients of these requests leave. */
  async fill(name: string): Promise<Sent[]> {
    const headers = { "x-sim-stall-after-tokens": "0" };
    const holders = Array.from({ length: SLOTS }, (_, n) => this.send(`${name}-${n}`, { headers }));
    await poll("the slots to be taken", async () => (await this.served(`${name}-`)).length === SLOTS, 20_000);
    return holders;
  }

  async queues(): Promise<Queues> {
    return getJson<Queues>(`${this.wire.adminUrl}/debug/queues`);
  }

  async queued(count: number): Promise<void> {
    await poll(`${count} queued requests`, async () => (await this.queues()).requests === count, 20_000);
  }

  /** The ids of the requests that reached the model servers, in the order of each server. */
  async served(prefix: string): Promise<string[]> {
    const lists = await Promise.all(
      this.#sims.map(({ url }) =>
        getJson<{ requests: { headers: Record<string, string> }[] }>(`${url}/admin/requests`),
      ),
    );
    return lists
      .flatMap(({ requests }) => requests.map(({ headers }) => headers["x-test-id"] ?? ""))
      .filter((id) => id.startsWith(prefix));
  }

  /** The sum of a metric over all series whose labels contain `labels`; 0 = no such series. */
  async sum(name: string, labels = ""): Promise<number> {
    const page = (await ask(`${this.wire.adminUrl}/metrics`)).text.split("\n");
    const values = page
      .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
      .filter((line) => line.includes(labels))
      .map((line) => Number(line.slice(line.lastIndexOf(" "))));
    return values.reduce((sum, value) => sum + value, 0);
  }

  outcomes(outcome: string): Promise<number> {
    return this.sum("llm_d_epp_flow_control_requests_total", `outcome="${outcome}"`);
  }

  /** Puts another configuration file in the place of the former one, and waits until it is in force. */
  async configure(text: string): Promise<void> {
    const applied = (): Promise<number> => this.sum("sluice_config_reloads_total", 'result="applied"');
    const before = await applied();
    writeFileSync(this.#config, text);
    await poll("the configuration to be in force", async () => (await applied()) > before, 20_000);
  }

  useServers(ports: readonly number[]): void {
    const entries = ports.map((port) => `- { name: late-${port}, address: 127.0.0.1, port: ${port} }\n`);
    writeFileSync(this.endpoints, ports.length === 0 ? "endpoints: []\n" : `endpoints:\n${entries.join("")}`);
  }

  async servers(count: number): Promise<void> {
    await poll(`${count} endpoints`, async () => (await this.#endpoints()).length === count, 20_000);
  }

  /** Every figure of requests and bodies that are under way is 0. */
  async idle(): Promise<void> {
    const gauges = [
      ...["queue_size", "queue_bytes", "capacity_utilization_requests", "capacity_utilization_bytes"].map(
        (name) => `llm_d_epp_flow_control_${name}`,
      ),
      ...["llm_d_epp_request_running", "sluice_body_budget_bytes", "sluice_body_budget_paused"],
    ];
    let rest: unknown;
    await poll(
      "all gauges to be 0",
      async () => {
        const { requests, bytes, undecided } = await this.queues();
        const values = await Promise.all(gauges.map(async (name) => [name, await this.sum(name)] as const));
        const inFlight = (await this.#endpoints()).map(({ inFlight }) => inFlight.requests);
        rest = Object.fromEntries([...values, ["queued", requests + bytes + undecided], ...Object.entries(inFlight)]);
        return Object.values(rest as Record<string, number>).every((value) => value === 0);
      },
      20_000,
    ).catch((error: unknown) => expect(JSON.stringify(rest), String(error)).toBe("all 0"));
    // Each request ended exactly once.
    expect(await this.sum("llm_d_epp_flow_control_requests_total")).toBe(this.sent);
  }

  async #endpoints(): Promise<readonly { readonly inFlight: { readonly requests: number } }[]> {
    return (
      await getJson<{ endpoints: readonly { readonly inFlight: { readonly requests: number } }[] }>(
        `${this.wire.adminUrl}/debug/endpoints`,
      )
    ).endpoints;
  }
}

const REASON = "x-llm-d-request-dropped-reason";

/** Its status and why it was refused. */
async function fate({ answer }: Sent): Promise<string> {
  const { status, headers } = await answer;
  return headers[REASON] === undefined ? String(status) : `${status} ${headers[REASON]}`;
}

const fates = (sent: readonly Sent[]): Promise<string[]> => Promise.all(sent.map(fate));
const all = (count: number, value: string): string[] => Array<string>(count).fill(value);
const numbered = (name: string, count: number): string[] => Array.from({ length: count }, (_, n) => `${name}-${n}`);
const leave = (sent: readonly Sent[]): void => {
  for (const one of sent) one.leave();
};

/**
 * The tests of requests that wait, for one wire.
 * @param startWire starts a picker
 * @param shutdownArgs let the picker begin to drain at once
 */
export function describeWaiting(name: string, startWire: StartWire, shutdownArgs: readonly string[] = []): void {
  describe(`requests that wait, ${name}`, () => {
    const running: { stop(): Promise<unknown> }[] = [];
    let sims: Sim[];
    let bench: Bench;
    /** The last call for requests that wait comes late in a shutdown. It runs beside the other tests. */
    let shutDown: Promise<{ readonly fates: readonly string[]; readonly exit: unknown } | Error>;

    beforeAll(async () => {
      sims = await startSims(1, ["--max-num-seqs", "256", ...NOT_SO_QUICK]);
      running.push(...sims.map(({ process }) => process));
      const [first, second] = await Promise.all([
        Bench.start(startWire, sims),
        Bench.start(startWire, sims, shutdownArgs),
      ]);
      bench = first;
      running.push(first.wire, second.wire);
      shutDown = endWhileOneIsServed(second).catch((error: Error) => error);
    });
    // No test leaves anything behind: a request, the bytes of a body, or a place at a model server.
    afterEach(() => {
      bench.leave();
      return bench.idle();
    });
    afterAll(() => Promise.all(running.map((one) => one.stop())));

    it("S-82: make room by the end of the newest sheddable request in flight, where the configuration says so", async () => {
      await bench.configure(configuration("enableEviction: true"));
      const sheddable: Sent[] = [];
      for (const id of numbered("evicted", SLOTS)) {
        sheddable.push(bench.send(id, { objective: "batch", headers: { "x-sim-stall-after-tokens": "0" } }));
        await poll("the slot to be taken", async () => (await bench.served(id)).length === 1, 20_000);
      }
      expect(await fate(bench.send("evicting", { objective: "realtime" }))).toBe("200");
      expect(await fate(sheddable.at(-1)!)).toBe("429 evicted");
      const issued = await bench.sum("llm_d_epp_flow_control_revocations_issued_total", 'priority="100"');
      expect([issued, await bench.sum("llm_d_epp_flow_control_revocations_total", 'outcome="confirmed"')]).toEqual([
        1, 1,
      ]);
      await bench.configure(configuration());
    });

    it("leave by priority, and in their order of arrival within a band", async () => {
      const holders = await bench.fill("holder-of-order");
      const arrivals: [string, Kind][] = [
        ["order-batch-0", { objective: "batch" }],
        ["order-0", {}],
        ["order-realtime-0", { objective: "realtime" }],
        ["order-1", {}],
        ["order-realtime-1", { objective: "realtime" }],
        ["order-batch-1", { objective: "batch" }],
      ];
      const sent: Sent[] = [];
      for (const [id, kind] of arrivals) sent.push(await bench.enqueue(id, kind));
      const { bands } = await bench.queues();
      expect(bands.filter(({ requests }) => requests > 0)).toMatchObject([
        { priority: 100, requests: 2 },
        { priority: 0, requests: 2 },
        { priority: -10, requests: 2 },
      ]);
      // One slot: then the requests reach the model server one after the other.
      holders[0]!.leave();
      expect(await fates(sent)).toEqual(all(6, "200"));
      expect(await bench.served("order-")).toEqual([
        ...["order-realtime-0", "order-realtime-1", "order-0", "order-1", "order-batch-0", "order-batch-1"],
      ]);
    });

    it("S-79: leave the queue at once with their client, and others go on", async () => {
      const before = await bench.outcomes("EvictedContextCancelled");
      const holders = await bench.fill("holder-of-leavers");
      const held = await bench.sum("sluice_body_budget_bytes");
      const alone = await bench.enqueue("leaver-alone");
      expect(await bench.sum("llm_d_epp_flow_control_queue_size")).toBe(1);
      alone.leave();
      // All slots are still taken, so that nothing else can have ended the wait.
      await bench.queued(0);
      expect(await bench.sum("llm_d_epp_flow_control_queue_size")).toBe(0);
      expect(await bench.sum("sluice_body_budget_bytes")).toBe(held);
      const [a, b, c] = [
        await bench.enqueue("leaver-a"),
        await bench.enqueue("leaver-b"),
        await bench.enqueue("leaver-c"),
      ];
      b.leave();
      await bench.queued(2);
      expect(await bench.outcomes("EvictedContextCancelled")).toBe(before + 2);
      holders[0]!.leave();
      expect(await fates([a, c])).toEqual(all(2, "200"));
      expect(await bench.served("leaver-")).toEqual(["leaver-a", "leaver-c"]);
    });

    it("S-78: are refused when their time is over, and when the band is full", async () => {
      const holders = await bench.fill("holder-of-refused");
      const first = await bench.enqueue("refused-first", { objective: "few" });
      expect(await fate(bench.send("refused-full", { objective: "few" }))).toBe("429 rejected-saturated");
      expect(await fate(bench.send("refused-late", { objective: "hasty" }))).toBe("429 rejected-ttl-expired");
      await bench.queued(1);
      holders[0]!.leave();
      expect(await fate(first)).toBe("200");
      expect(await bench.served("refused-")).toEqual(["refused-first"]);
      expect(await bench.outcomes("RejectedCapacity")).toBe(1);
      expect(await bench.outcomes("EvictedTTL")).toBe(1);
    });

    it("S-75: a tenant that floods delays another one only by its turns", async () => {
      const holders = await bench.fill("holder-of-tenants");
      const flood = numbered("turn-flood", 100).map((id) => bench.send(id, { objective: "shared", tenant: "flood" }));
      await bench.queued(100);
      const calm: Sent[] = [];
      for (const id of numbered("turn-calm", 5))
        calm.push(await bench.enqueue(id, { objective: "shared", tenant: "calm" }));
      holders[0]!.leave();
      expect(await fates([...calm, ...flood])).toEqual(all(105, "200"));
      const order = await bench.served("turn-");
      const places = order.flatMap((id, at) => (id.startsWith("turn-calm") ? [at] : []));
      expect(order).toHaveLength(105);
      expect(order.filter((id) => id.startsWith("turn-calm"))).toEqual(numbered("turn-calm", 5));
      for (const [n, place] of places.entries()) expect(place).toBeLessThanOrEqual(2 * n + 1);
    });

    it("keep their order when the configuration changes while 100 wait, and all go on when it has no flow control", async () => {
      const holders = await bench.fill("holder-of-change");
      const sent: Sent[] = [];
      for (const id of numbered("changed", 100)) sent.push(await bench.enqueue(id));
      await bench.configure(configuration("defaultPriorityBand: { fairnessPolicyRef: turns, maxRequests: 100 }"));
      await bench.queued(100);
      holders[0]!.leave();
      expect(await fates(sent)).toEqual(all(100, "200"));
      expect(await bench.served("changed-")).toEqual(numbered("changed", 100));
      leave(holders);
      await bench.fill("holder-of-gate");
      const freed = numbered("freed", 20).map((id) => bench.send(id));
      await bench.queued(20);
      await bench.configure(WITHOUT_GATE);
      // The slots are still taken: these requests exceed them, as they do without flow control.
      expect(await fates(freed)).toEqual(all(20, "200"));
      expect((await ask(`${bench.wire.adminUrl}/debug/queues`)).status).toBe(404);
      await bench.configure(configuration());
    });

    it("S-78: wait for the first model server, which gets them late and never more than it has slots for", async () => {
      // A server that refuses what exceeds its slots, and that keeps each slot long enough to meet the excess.
      const strict = [
        "--max-num-seqs",
        String(SLOTS),
        "--max-waiting-queue-length",
        "0",
        "--inter-token-latency",
        "40",
      ];
      bench.useServers([]);
      await bench.servers(0);
      const sent = numbered("late", 10).map((id) => bench.send(id));
      await bench.queued(10);
      const late = await startSims(1, strict);
      running.push(...late.map(({ process }) => process));
      bench.useServers(late.map(({ port }) => port));
      expect(await fates(sent)).toEqual(all(10, "200"));
      const { requests } = await getJson<{ requests: { headers: Record<string, string> }[] }>(
        `${late[0]!.url}/admin/requests`,
      );
      // Once each: a refusal by the server was not hidden by a retry. The gateway's question for models has no id.
      expect(requests.flatMap(({ headers }) => headers["x-test-id"] ?? []).sort()).toEqual(numbered("late", 10).sort());

      bench.useServers([]);
      await bench.servers(0);
      await bench.configure(configuration("noEndpointRequestTTL: 1s"));
      expect(await fate(bench.send("nowhere"))).toBe("503 rejected-no-endpoints");
      expect(await bench.outcomes("EvictedNoEndpoints")).toBe(1);
    });

    it("are served while the picker drains, and those without a slot at its end are refused, none hangs", async () => {
      expect(await shutDown).toEqual({
        fates: ["200", ...all(3, "503 rejected-shutting-down")],
        exit: { code: 0, signal: null },
      });
    });
  });
}

/** Ends a picker while requests wait: one of them finds a slot, the rest does not. */
async function endWhileOneIsServed(bench: Bench): Promise<{ fates: readonly string[]; exit: unknown }> {
  const { picker } = bench.wire;
  const holders = await bench.fill("holder-of-end");
  const served = await bench.enqueue("end-served");
  const next = await bench.enqueue("end-holder", { headers: { "x-sim-stall-after-tokens": "0" } });
  const refused: Sent[] = [];
  for (const id of numbered("end-refused", 3)) refused.push(await bench.enqueue(id));
  picker.child.kill("SIGTERM");
  await poll("the drain", () => picker.stderr.includes("draining"), 20_000);
  // The slot serves the first request, and the second one keeps it.
  holders[0]!.leave();
  const seen = await fates([served, ...refused]);
  leave([...holders, next]);
  return { fates: seen, exit: await picker.ended() };
}
