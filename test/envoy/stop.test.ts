import { afterEach, describe, expect, it } from "vitest";
import type { Variant } from "../../src/wires/envoy/options.ts";
import { ask } from "../support/client.ts";
import { type RunningEnvoy, startEnvoy } from "../support/envoy.ts";
import { Load } from "../support/load.ts";
import { poll } from "../support/poll.ts";
import { tcpService } from "../support/service.ts";
import { type Epp, endpointsFile, startEpp, startSims } from "../support/stack.ts";

/** The four shipped configurations: three fail closed, one fails open. */
const VARIANTS: readonly Variant[] = ["standalone", "subset-hint", "tls", "override-host"];

const running: { stop(): Promise<unknown> }[] = [];

const stopAll = async (): Promise<void> => {
  for (const one of running.splice(0).reverse()) await one.stop();
};
afterEach(stopAll);

/** Seconds for which a picker drains: longer than Envoy needs to notice it, which asks every 5 s. */
const DRAIN = 8;

/** Milliseconds between the requests of a strand: most of a case waits for drains, and other files need the processors. */
const PAUSE = 10;

/** Model servers, pickers and a way to put Envoy and a load in front of them. @param drain seconds */
async function setUp(variant: Variant, pickers: number, drain = DRAIN) {
  const sims = await startSims(2, ["--max-num-seqs", "64", "--inter-token-latency", "1"]);
  running.push(...sims.map(({ process }) => process));
  const serverPorts = sims.map(({ port }) => port);
  const endpoints = endpointsFile(serverPorts);
  const picker = async (args: readonly string[] = []): Promise<Epp> => {
    const epp = await startEpp(endpoints, 0, [`--secure-serving=${variant === "tls"}`, ...args]);
    running.push(epp.process);
    return epp;
  };
  const first = await Promise.all(Array.from({ length: pickers }, () => picker([`--drain-timeout=${drain}s`])));
  const front = async (
    eppPort: number,
    edit?: (yaml: string) => string,
  ): Promise<{ envoy: RunningEnvoy; load: Load }> => {
    const envoy = await startEnvoy({ variant, eppPort, serverPorts, ...(edit === undefined ? {} : { edit }) });
    running.push(envoy.process);
    await envoy.findsPickers(edit === undefined ? 1 : 2);
    const url = `http://127.0.0.1:${envoy.port}`;
    await poll("the first answer", async () => (await ask(`${url}/v1/models`)).status === 200);
    const load = new Load(url, { pause: PAUSE });
    running.push(load);
    await more(load, 50);
    return { envoy, load };
  };
  return { pickers: first, picker, front };
}

/** Waits until `count` more requests were answered. */
async function more(load: Load, count: number): Promise<void> {
  const from = load.mark;
  await poll(`${count} requests`, () => load.mark >= from + count);
}

/** Every status that was answered. */
function statuses(load: Load): readonly number[] {
  return [...new Set(load.seen.map(({ status }) => status))];
}

async function exchanges({ adminUrl }: Epp): Promise<number> {
  const page = (await ask(`${adminUrl}/metrics`)).text;
  return Number(/^sluice_exchanges_total\{outcome="complete"\} (\d+)$/m.exec(page)?.[1] ?? 0);
}

describe("a picker that is told to end, behind a shipped configuration, under load", () => {
  it.each(VARIANTS)("%s, alone: no request fails while it drains, though Envoy knows that it does", async (variant) => {
    const { picker, front } = await setUp(variant, 0);
    const epp = await picker(["--drain-timeout=1h"]);
    const { envoy, load } = await front(epp.port);
    epp.process.child.kill("SIGTERM");
    await poll("Envoy to know", async () => (await envoy.stat("cluster.epp.membership_healthy")) === 0);
    await more(load, 300);
    expect(statuses(load)).toEqual([200]);
    expect(epp.process.exit).toBeUndefined();
  });

  it.each(VARIANTS)(
    "%s, a second one behind the same address: the hand-over costs none, to the end of the first",
    async (variant) => {
      const { pickers, front } = await setUp(variant, 2);
      const [old, young] = pickers as [Epp, Epp];
      const service = await tcpService([old.port]);
      running.push({ stop: () => service.close() });
      const { load } = await front(service.port);
      // As a Service does when a pod is replaced: the new one is ready, then the old one is told to end and leaves the list.
      service.targets = [old.port, young.port];
      old.process.child.kill("SIGTERM");
      await more(load, 50);
      service.targets = [young.port];
      expect(await old.process.ended()).toEqual({ code: 0, signal: null });
      const handed = await exchanges(young);
      await more(load, 200);
      expect(statuses(load)).toEqual([200]);
      await poll("the second one to be asked", async () => (await exchanges(young)) > handed + 100);
    },
  );

  it.each(["standalone", "override-host"] as const)(
    "%s, a second one at an address of its own: neither",
    async (variant) => {
      // Where the machine stands still, the drain may be over before Envoy has asked: then it is repeated with a longer drain.
      for (let drain = DRAIN; !(await handedOver(variant, drain)); drain *= 2) await stopAll();
    },
  );
});

/**
 * Ends one of two pickers that Envoy knows by their own addresses. Nothing may fail.
 * @param drain seconds
 * @returns whether Envoy noticed the drain before it was over; else nothing was checked
 */
async function handedOver(variant: Variant, drain: number): Promise<boolean> {
  const { pickers, front } = await setUp(variant, 2, drain);
  const [old, young] = pickers as [Epp, Epp];
  const { envoy, load } = await front(old.port, (yaml) => withSecond(yaml, old.port, young.port));
  await poll("both to be asked", async () => (await exchanges(young)) > 0 && (await exchanges(old)) > 0);
  old.process.child.kill("SIGTERM");
  const noticed = await poll("Envoy to notice, or the end", async () => {
    const healthy = await envoy.stat("cluster.epp.membership_healthy");
    return old.process.exit === undefined ? healthy === 1 && "in time" : "too late";
  });
  expect(await old.process.ended()).toEqual({ code: 0, signal: null });
  if (noticed === "too late") return false;
  await more(load, 200);
  expect(statuses(load)).toEqual([200]);
  return true;
}

describe("a picker that stands still for 3 s under load, behind a shipped configuration", () => {
  it.each(VARIANTS)("%s: every request is answered, and none goes round it", async (variant) => {
    const { pickers, front } = await setUp(variant, 1);
    const [epp] = pickers as [Epp];
    const { envoy, load } = await front(epp.port);
    epp.process.child.kill("SIGSTOP");
    await poll("a request that has waited for 3 s", () => load.longestWait > 3000);
    epp.process.child.kill("SIGCONT");
    await more(load, 100);
    expect(statuses(load)).toEqual([200]);
    expect(await envoy.stat("cluster.epp.membership_healthy")).toBe(1);
    expect(await envoy.stat("http.inference.ext_proc.failure_mode_allowed")).toBe(0);
  });
});

/** Adds a second host to the cluster of the picker. */
function withSecond(yaml: string, first: number, second: number): string {
  const line = `        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: ${first} } } }\n`;
  expect(yaml.split(line)).toHaveLength(2);
  return yaml.replace(line, line + line.replace(String(first), String(second)));
}
