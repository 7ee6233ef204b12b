import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../support/client.ts";
import { poll } from "../support/poll.ts";
import { type Decision, Pickers, peersOf } from "./pickers.ts";

/** A prompt of some hundred blocks that no other number has. */
const prompt = (n: number): string => `document ${n}: ${`clause ${n} of the contract says so. `.repeat(100)}`;

describe("three pickers that share, behind one Envoy that takes them in turn", () => {
  let pickers: Pickers;

  beforeAll(async () => {
    pickers = await Pickers.start(3, undefined, true);
  });
  afterAll(() => pickers?.stop());

  it("hear each other", async () => {
    await pickers.allHear(2);
    const ids = (await Promise.all(pickers.replicas.map(peersOf))).map(({ self }) => self.id);
    expect(new Set(ids).size).toBe(3);
    for (const { adminUrl } of pickers.replicas) {
      expect((await ask(`${adminUrl}/ready`)).status).toBe(200);
      const { text } = await ask(`${adminUrl}/metrics`);
      expect(text).toContain('sluice_peers{state="live"} 2');
      expect(text).toContain("sluice_peers_store_up 1");
    }
  });

  it("know which server has the beginning of a prompt, whichever of them placed it", async () => {
    // Not a multiple of three: taken in turn, another replica decides about the same prompt.
    const prompts = Array.from({ length: 7 }, (_, n) => prompt(n));
    const first: Decision[] = [];
    for (const text of prompts) first.push(await pickers.decisionOn((await pickers.send(text)).id));
    await pickers.logIsRead();
    const again: Decision[] = [];
    for (const text of prompts) again.push(await pickers.decisionOn((await pickers.send(`${text} question`)).id));
    // Where the request went may depend on the load. What the replica knew does not.
    for (const [n, { prefix }] of again.entries())
      expect(prefix.get(first[n]!.server), `prompt ${n}`).toBeGreaterThan(0.5);
    expect(again.filter(({ replica }, n) => replica !== first[n]!.replica).length).toBeGreaterThan(0);
    for (const { prefix } of first) expect([...prefix.values()]).toEqual([0, 0, 0]);
  });

  it("count together what the servers run, to the request", async () => {
    const long = pickers.begin(18, (n) => `story ${n}`);
    await pickers.countsAgree(18);
    const running = await pickers.running();
    expect(Math.min(...running)).toBeGreaterThan(0);
    long.end();
    await pickers.countsAgree(0);
  });

  it("take requests while the store is away, and agree again once it is back", async () => {
    const long = pickers.begin(6, (n) => `before ${n}`);
    await pickers.countsAgree(6);
    await pickers.store.kill();
    for (const epp of pickers.replicas)
      await poll("the store to be missed", async () => (await peersOf(epp)).state === "away");
    for (let n = 0; n < 6; n++) expect((await pickers.send(prompt(n))).status).toBe(200);
    const more = pickers.begin(6, (n) => `meanwhile ${n}`);
    await pickers.store.restart();
    await pickers.allHear(2);
    await pickers.countsAgree(12);
    long.end();
    more.end();
    await pickers.countsAgree(0);
  });

  it("forget at once the load of a picker that was killed, and no request after it is lost", async () => {
    const long = pickers.begin(9, (n) => `last words ${n}`);
    await pickers.countsAgree(9);
    // In turn, so that one of them is at the picker that dies.
    const halves = [await pickers.sendHalf("half"), await pickers.sendHalf("half"), await pickers.sendHalf("half")];
    await pickers.replicas[2]!.process.stop("SIGKILL");
    const whole = await Promise.all(halves.map((sendRest) => sendRest()));
    expect(whole).toEqual(Array(3).fill({ status: 200, tokens: whole[0]!.tokens }));
    expect(whole[0]!.tokens).toBeGreaterThan(0);
    expect(await pickers.envoy.stat("cluster.epp.upstream_rq_retry")).toBeGreaterThanOrEqual(1);
    // Together, so that the turns of retries and of other requests mix.
    const sent = await Promise.all(Array.from({ length: 60 }, (_, n) => pickers.send(prompt(n % 7))));
    expect(sent.filter(({ status }) => status !== 200)).toEqual([]);
    expect(await pickers.envoy.stat("cluster.epp.upstream_rq_retry")).toBeGreaterThanOrEqual(20);
    await pickers.allHear(1);
    await pickers.countsAgree();
    // What the others carry runs on.
    const survivors = (await pickers.running()).reduce((sum, one) => sum + one, 0);
    expect(survivors).toBeGreaterThanOrEqual(6);
    long.end();
    await pickers.countsAgree(0);
  });
});
