import { afterEach, describe, expect, it } from "vitest";
import { type Answer, ask, chat, JSON_HEADERS } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { fixedLimit } from "../support/slowness.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";
import { type TcpProxy, tcpProxy } from "../support/tcp-proxy.ts";

// What a rolling update and a load balancer do with gateways: an old one gets SIGTERM, and new connections go elsewhere only a
// while later.

let sims: Sim[] = [];
const gateways: TestGateway[] = [];
let door: TcpProxy | undefined;

afterEach(async () => {
  await door?.close();
  for (const { process } of gateways.splice(0)) await process.stop();
  for (const { process } of sims) await process.stop();
  door = undefined;
  sims = [];
});

async function start(endpoints: string, drain: string): Promise<TestGateway> {
  const gateway = await startGateway(endpoints, [`--drain-timeout=${drain}`]);
  gateways.push(gateway);
  return gateway;
}

const question = (url: string): Promise<Answer> =>
  ask(`${url}/v1/chat/completions`, { headers: JSON_HEADERS, body: chat("hello") });
const readiness = async ({ adminUrl }: TestGateway): Promise<number> => (await ask(`${adminUrl}/ready`)).status;

describe("a gateway that is told to end", () => {
  it("is not ready, but alive, and takes requests until its drain is over", async () => {
    sims = await startSims(1);
    const gateway = await start(endpointsFile([sims[0]!.port]), "1h");
    gateway.process.child.kill("SIGTERM");
    await poll("it to be not ready", async () => (await readiness(gateway)) === 503);
    expect((await ask(`${gateway.adminUrl}/healthz`)).status).toBe(200);
    const { status, headers } = await question(gateway.url);
    expect([status, headers.connection]).toEqual([200, "close"]);
    // A second signal ends the wait.
    await gateway.process.stop("SIGTERM");
    expect(gateway.process.exit).toEqual({ code: 1, signal: null });
  });

  it("loses no request to a balancer that notices late", async () => {
    sims = await startSims(2);
    const endpoints = endpointsFile(sims.map(({ port }) => port));
    const old = await start(endpoints, `${fixedLimit(1000)}ms`);
    door = await tcpProxy(old.port);
    const url = `http://127.0.0.1:${door.port}`;
    const seen = new Map<number, number>();
    let isOver = false;
    // One client after the other, as long as the update goes on.
    const clients = Array.from({ length: 4 }, async () => {
      while (!isOver) {
        const { status } = await question(url);
        seen.set(status, (seen.get(status) ?? 0) + 1);
      }
    });
    const young = await start(endpoints, "0s");
    old.process.child.kill("SIGTERM");
    await poll("the old gateway to be not ready", async () => (await readiness(old)) === 503);
    const during = (seen.get(200) ?? 0) + 4;
    await poll("requests that come after the signal", () => (seen.get(200) ?? 0) > during);
    // Only now the balancer sees it.
    door.retarget(young.port);
    await old.process.ended(60_000);
    expect(old.process.exit).toEqual({ code: 0, signal: null });
    const after = seen.get(200) ?? 0;
    await poll("requests at the new gateway", () => (seen.get(200) ?? 0) > after);
    isOver = true;
    await Promise.all(clients);
    expect([...seen.keys()]).toEqual([200]);
  });
});
