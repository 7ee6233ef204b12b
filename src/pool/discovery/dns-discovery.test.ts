import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DnsServer } from "../../../test/support/dns-server.ts";
import { poll } from "../../../test/support/poll.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { type LogFields, type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { EndpointRegistry } from "../endpoints/registry.ts";
import { DnsDiscovery } from "./dns-discovery.ts";
import { MAX_TARGETS } from "./dns-lookup.ts";
import { dnsSettings } from "./dns-settings.ts";

const INTERVAL = 30_000;
let dns: DnsServer;
let clock: VirtualClock;
let registry: EndpointRegistry;
let lines: (LogFields & { readonly message: string })[];
const running: DnsDiscovery[] = [];

beforeEach(async () => {
  dns = await DnsServer.start();
  clock = new VirtualClock();
  registry = new EndpointRegistry({ clock, random: new SeededRandom(1) });
  lines = [];
});
afterEach(async () => {
  for (const discovery of running.splice(0)) discovery.close();
  await dns.stop();
});

async function start(names: readonly object[], needsAnswers = false): Promise<DnsDiscovery> {
  const settings = dnsSettings.parse({ names, interval: "30s", servers: [dns.address] });
  const line = (fields: LogFields, message: string): void => void lines.push({ ...fields, message });
  const log: Logger = { ...silentLogger, info: line, warn: line, error: line };
  const discovery = new DnsDiscovery({ settings, needsAnswers, pool: registry, clock, log });
  running.push(discovery);
  await discovery.start();
  return discovery;
}

const found = (): string[] => registry.list().map(({ name }) => name);
const told = (): string[] =>
  lines.filter(({ message }) => message.startsWith("DNS")).map(({ problem }) => `${problem}`);

/** Lets the interval pass, and waits until the last question of the next look was asked. */
async function next(lastQuestion: string): Promise<void> {
  const before = dns.asked.length;
  clock.advance(INTERVAL);
  await poll("the question", () => dns.asked.slice(before).includes(lastQuestion));
}
const becomes = (...names: string[]): Promise<unknown> =>
  poll(`endpoints ${names}`, () => JSON.stringify(found()) === JSON.stringify(names));

describe("a name of addresses", () => {
  it("gives an endpoint for each address of both families, with port, labels and models", async () => {
    dns.set("A", "gpu.test", { records: ["10.0.0.2", "10.0.0.1"] });
    dns.set("AAAA", "gpu.test", { records: ["fd00::7"] });
    await start([{ host: "gpu.test", port: 8000, labels: { zone: "a" }, models: ["m"] }]);
    expect(found()).toEqual(["10.0.0.1:8000", "10.0.0.2:8000", "[fd00::7]:8000"]);
    const [first] = registry.list();
    expect(first).toMatchObject({ address: "10.0.0.1", port: 8000, labels: { zone: "a" } });
    expect(first?.models).toMatchObject({ source: "file", byName: new Map([["m", expect.anything()]]) });
  });

  it("grows and shrinks at the interval, and keeps the endpoints that stay", async () => {
    dns.set("A", "gpu.test", { records: ["10.0.0.1"] });
    await start([{ host: "gpu.test", port: 1 }]);
    const [first] = registry.list();
    dns.set("A", "gpu.test", { records: ["10.0.0.2", "10.0.0.1", "10.0.0.3"] });
    clock.advance(INTERVAL - 1);
    expect(dns.asked).toHaveLength(2);
    clock.advance(1);
    await becomes("10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1");
    expect(registry.list()[0]).toBe(first);
    dns.set("A", "gpu.test", { records: ["10.0.0.1"] });
    await next("A gpu.test");
    await becomes("10.0.0.1:1");
    expect(registry.list()).toEqual([first]);
  });

  it.each([
    [{ rcode: "NXDOMAIN" }, "the name does not exist (NXDOMAIN)"],
    [{ rcode: "SERVFAIL" }, "the DNS server failed (SERVFAIL)"],
    [{ rcode: "REFUSED" }, "the DNS server refused the query (REFUSED)"],
    [{ records: [] }, "the name has no record of this type"],
  ] as const)("keeps its last answer over %j, with one line for each change", async (answer, problem) => {
    dns.set("A", "gpu.test", { records: ["10.0.0.1"] });
    await start([{ host: "gpu.test", port: 1 }]);
    dns.set("A", "gpu.test", answer);
    dns.set("AAAA", "gpu.test", answer);
    await next("AAAA gpu.test");
    await poll("the line", () => told().length === 1);
    const before = dns.asked.length;
    await poll("two more looks", () => {
      clock.advance(INTERVAL);
      return dns.asked.length >= before + 4;
    });
    expect([found(), told()]).toEqual([["10.0.0.1:1"], [problem]]);
    dns.set("A", "gpu.test", { records: ["10.0.0.9"] });
    await poll("the new address", () => {
      clock.advance(INTERVAL);
      return found()[0] === "10.0.0.9:1";
    });
    expect(told()).toEqual([problem, "undefined"]);
  });

  it("believes one family while the questions for the other fail, and keeps what that one had", async () => {
    dns.set("A", "gpu.test", { records: ["10.0.0.1"] });
    dns.set("AAAA", "gpu.test", { rcode: "SERVFAIL" });
    await start([{ host: "gpu.test", port: 1 }]);
    expect([found(), told()]).toEqual([["10.0.0.1:1"], []]);
    dns.set("A", "gpu.test", { rcode: "SERVFAIL" });
    dns.set("AAAA", "gpu.test", { records: ["fd00::1"] });
    await next("AAAA gpu.test");
    await becomes("10.0.0.1:1", "[fd00::1]:1");
    expect(told()).toEqual(["the DNS server failed (SERVFAIL)"]);
    dns.set("A", "gpu.test", { records: [] });
    await poll("the addresses of one family alone", () => {
      clock.advance(INTERVAL);
      return found().length === 1;
    });
    expect(found()).toEqual(["[fd00::1]:1"]);
  });

  it("takes answers that are truncated by TCP", async () => {
    const records = Array.from({ length: 200 }, (_, i) => `10.0.1.${i}`);
    dns.set("A", "many.test", { records, truncated: true });
    await start([{ host: "many.test", port: 1 }]);
    expect(found()).toHaveLength(200);
    expect(dns.asked).toContain("A many.test tcp");
  });

  it("leaves out addresses that no single server has", async () => {
    dns.set("A", "gpu.test", { records: ["0.0.0.0", "169.254.1.1", "224.0.0.1", "10.0.0.1"] });
    dns.set("A", "bad.test", { records: ["0.0.0.0"] });
    await start([
      { host: "gpu.test", port: 1 },
      { host: "bad.test", port: 1 },
    ]);
    expect([found(), told()]).toEqual([["10.0.0.1:1"], ["the name has no address that a server can have"]]);
  });
});

describe("a name of SRV records", () => {
  it("gives an endpoint for each address of each target, at its port", async () => {
    const records = [
      { target: "a.test", port: 8000 },
      { target: "B.test", port: 8001 },
      { target: "a.test", port: 8002 },
    ];
    dns.set("SRV", "_vllm._tcp.test", { records });
    dns.set("A", "a.test", { records: ["10.0.0.1"] });
    dns.set("A", "b.test", { records: ["10.0.0.2", "10.0.0.3"] });
    await start([{ srv: "_vllm._tcp.test" }]);
    expect(found()).toEqual(["10.0.0.1:8000", "10.0.0.1:8002", "10.0.0.2:8001", "10.0.0.3:8001"]);
    // A host is asked once, however many records name it.
    expect(dns.asked.filter((question) => question === "A a.test")).toHaveLength(1);
  });

  it("keeps the targets over a failure and the addresses of a target over its failure; a target that is gone is gone", async () => {
    const [a, b] = [
      { target: "a.test", port: 1 },
      { target: "b.test", port: 1 },
    ];
    dns.set("SRV", "s.test", { records: [a, b] });
    dns.set("A", "a.test", { records: ["10.0.0.1"] });
    dns.set("A", "b.test", { records: ["10.0.0.2"] });
    await start([{ srv: "s.test" }]);
    dns.set("SRV", "s.test", { rcode: "SERVFAIL" });
    dns.set("A", "b.test", { rcode: "SERVFAIL" });
    dns.set("AAAA", "b.test", { rcode: "SERVFAIL" });
    dns.set("A", "a.test", { records: ["10.0.0.9"] });
    await next("AAAA b.test");
    await becomes("10.0.0.2:1", "10.0.0.9:1");
    expect(told()).toEqual(["b.test: the DNS server failed (SERVFAIL), and 1 more"]);
    dns.set("SRV", "s.test", { records: [a] });
    await poll("one target", () => {
      clock.advance(INTERVAL);
      return found().length === 1;
    });
    expect(found()).toEqual(["10.0.0.9:1"]);
    dns.set("SRV", "s.test", { records: [{ target: ".", port: 1 }] });
    await poll("the line", () => {
      clock.advance(INTERVAL);
      return told().at(-1) === "the SRV records name no host";
    });
    expect(found()).toEqual(["10.0.0.9:1"]);
  });

  it(`takes at most ${MAX_TARGETS} records`, async () => {
    const records = Array.from({ length: MAX_TARGETS + 5 }, (_, i) => ({ target: "a.test", port: i + 1 }));
    dns.set("SRV", "s.test", { records, truncated: true });
    dns.set("A", "a.test", { records: ["10.0.0.1"] });
    await start([{ srv: "s.test" }]);
    expect(found()).toHaveLength(MAX_TARGETS);
    expect(told()).toEqual([`more than ${MAX_TARGETS} SRV records: Sluice ignores the last ones`]);
  });
});

describe("the start", () => {
  it("goes on without a name that has no answer, and asks it again after 5 s", async () => {
    dns.set("A", "up.test", { records: ["10.0.0.1"] });
    const names = [
      { host: "up.test", port: 1 },
      { host: "late.test", port: 1 },
    ];
    await start(names);
    expect([found(), told()]).toEqual([["10.0.0.1:1"], ["the name does not exist (NXDOMAIN)"]]);
    dns.set("A", "late.test", { records: ["10.0.0.2"] });
    clock.advance(5000);
    await becomes("10.0.0.1:1", "10.0.0.2:1");
  });

  it("fails where each name needs an answer, and leaves the pool as it was", async () => {
    registry.upsert({ namespace: "default", name: "old", address: "10.9.9.9", port: 1, rank: 0, labels: {} });
    dns.set("A", "up.test", { records: ["10.0.0.1"] });
    const names = [
      { host: "up.test", port: 1 },
      { host: "typo.test", port: 1 },
    ];
    await expect(start(names, true)).rejects.toMatchObject({
      code: "DISCOVERY_DNS",
      message: "DNS has no endpoints for typo.test: the name does not exist (NXDOMAIN)",
    });
    expect(found()).toEqual(["old"]);
  });

  it("asks nothing more once it is closed", async () => {
    dns.set("A", "up.test", { records: ["10.0.0.1"] });
    const discovery = await start([{ host: "up.test", port: 1 }]);
    discovery.close();
    expect(clock.pending).toBe(0);
  });

  it("counts a server of two names once, as the first name has it", async () => {
    dns.set("A", "a.test", { records: ["10.0.0.1"] });
    dns.set("A", "b.test", { records: ["10.0.0.1", "10.0.0.2"] });
    await start([
      { host: "a.test", port: 1, labels: { from: "a" } },
      { host: "b.test", port: 1, labels: { from: "b" } },
    ]);
    expect(registry.list().map(({ name, labels }) => [name, labels["from"]])).toEqual([
      ["10.0.0.1:1", "a"],
      ["10.0.0.2:1", "b"],
    ]);
  });
});
