import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freshRandom, SeededRandom } from "../../src/base/clock/random.ts";
import type { Redis } from "../../src/base/redis/connection.ts";
import { peerKeys } from "../../src/pool/peers/redis-keys.ts";
import { tell } from "../chaos/account.ts";
import { direct } from "../redis/setup.ts";
import { ask, chat, JSON_HEADERS } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { slownessAtStart } from "../support/slowness.ts";
import { NAME, Pickers, peersOf } from "./pickers.ts";

/** How often something breaks. */
const ROUNDS = Number(process.env["SLUICE_ROUNDS"]) || 24;
const PROMPTS = 20;
/** Milliseconds in which all agree once nothing is broken any more. */
const CONVERGES = 5000;
/** The messages that are kept to be sent again. */
const KEPT = 2000;
/** The salt of replicas of another cluster. */
const OTHER_SECRET = "of the other cluster";
const CHANNEL = peerKeys(NAME, "").channel;

const prompt = (n: number): string => `document ${n}: ${`clause ${n} of the contract says so. `.repeat(100)}`;

describe("three pickers that share, while everything breaks in turn", () => {
  let pickers: Pickers;
  let recorder: Redis | undefined;
  /** Loads that were published, of all replicas and all their lives. */
  const heard: Buffer[] = [];
  const seed = Number(process.env["SLUICE_SEED"]) || freshRandom().state;
  const random = new SeededRandom(seed);

  beforeAll(async () => {
    pickers = await Pickers.start();
    await pickers.allHear(2);
  });
  afterAll(async () => {
    recorder?.close();
    await pickers?.stop();
  });

  /** Begins to keep what replicas publish; the store may have been another one before. */
  async function record(): Promise<Redis> {
    recorder?.close();
    recorder = await direct(pickers.store.url);
    recorder.subscribeBytes(CHANNEL, (frame) => {
      if (heard.length < KEPT) heard.push(frame);
      else heard[random.below(KEPT)] = frame;
    });
    return recorder;
  }

  /** A gateway that uses the same store and servers, for as long as `use` takes. */
  async function stranger(peers: string, use: (gateway: TestGateway) => Promise<void>): Promise<void> {
    process.env["SLUICE_PEERS_SECRET"] = OTHER_SECRET;
    const starting = startGateway(pickers.endpoints, ["--peers", peers, "--peers-name", NAME]);
    delete process.env["SLUICE_PEERS_SECRET"];
    const gateway = await starting;
    const abort = new AbortController();
    pickers.strangers.push(gateway);
    try {
      const { signal } = abort;
      const body = chat("a story of the other cluster", { max_tokens: 100_000, stream: true });
      for (let n = 0; n < 4; n++)
        ask(`${gateway.url}/v1/chat/completions`, { headers: JSON_HEADERS, body, signal }).catch(() => {});
      await use(gateway);
      await pickers.countsAgree();
    } finally {
      abort.abort();
      pickers.strangers.pop();
      await gateway.process.stop("SIGKILL");
    }
  }

  /** What breaks, and how it is whole again. Statuses besides 200 are allowed where Envoy had requests at a picker that died. */
  const FAULTS: readonly { readonly name: string; readonly loses: boolean; run(): Promise<void> }[] = [
    { name: "cut", loses: false, run: async () => pickers.proxy.cut() },
    {
      name: "store killed and empty",
      loses: false,
      async run() {
        await pickers.store.kill();
        await pickers.store.restart();
      },
    },
    {
      name: "network silent",
      loses: false,
      async run() {
        pickers.proxy.blackHole(true);
        for (const epp of pickers.replicas)
          await poll("the store to be missed", async () => (await peersOf(epp)).store.state !== "up");
        pickers.proxy.blackHole(false);
      },
    },
    {
      name: "network slow",
      loses: false,
      async run() {
        pickers.proxy.delay(2000);
        for (const epp of pickers.replicas)
          await poll("the store to be slow", async () => (await peersOf(epp)).store.state === "slow");
        pickers.proxy.delay(0);
        pickers.proxy.cut();
      },
    },
    {
      name: "network garbled",
      loses: false,
      async run() {
        pickers.proxy.garble(random);
        for (const epp of pickers.replicas)
          await poll("damage to be noticed", async () => {
            const { store, refused } = await peersOf(epp);
            return store.state !== "up" || refused.damaged > 0;
          });
        pickers.proxy.garble(undefined);
        pickers.proxy.cut();
      },
    },
    {
      name: "picker killed",
      loses: true,
      async run() {
        const n = random.below(3);
        await pickers.replicas[n]!.process.stop("SIGKILL");
        await pickers.restart(n);
        await pickers.envoy.findsPickers(3);
      },
    },
    {
      name: "messages of the past, of the dead too",
      loses: false,
      async run() {
        const store = await record();
        await poll("messages", () => heard.length > 20);
        for (let n = 0; n < 500; n++) await store.send(["PUBLISH", CHANNEL, heard[random.below(heard.length)]!]);
      },
    },
    {
      name: "another cluster on the same keys",
      loses: false,
      run: () =>
        stranger(`redis://127.0.0.1:${pickers.proxy.port}`, async (gateway) => {
          for (const one of [...pickers.replicas, gateway])
            await poll("the other cluster to be told", async () => (await peersOf(one)).refused.cluster > 0);
          expect((await peersOf(gateway)).replicas).toEqual([]);
        }),
    },
    {
      name: "another cluster that speaks TLS to this store",
      loses: false,
      run: () =>
        stranger(`rediss://127.0.0.1:${pickers.proxy.port}`, async (gateway) => {
          await poll("the store to be missed", async () => {
            const { state } = (await peersOf(gateway)).store;
            return state !== "up" && state !== "connecting";
          });
        }),
    },
  ];

  it("come to one truth within 5 s after each fault, and lose requests only with a picker", async () => {
    await record();
    let worst = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const { name, loses, run } = FAULTS[round < FAULTS.length ? round : random.below(FAULTS.length)]!;
      const long = pickers.begin(9, (n) => `round ${round}: ${n}`);
      await pickers.countsAgree(9);
      let running = true;
      const statuses: number[] = [];
      const traffic = (async () => {
        while (running) statuses.push((await pickers.send(prompt(random.below(PROMPTS)))).status);
      })();
      await run();
      running = false;
      await traffic;
      const whole = performance.now();
      await pickers.allHear(2);
      await pickers.countsAgree();
      const took = performance.now() - whole;
      worst = Math.max(worst, took);
      const lost = statuses.filter((status) => status !== 200);
      tell(
        `round ${round}: ${name}: ${statuses.length} requests, ${lost.length} lost, agreed after ${took.toFixed(0)} ms`,
      );
      if (!loses) expect({ name, seed, lost }).toEqual({ name, seed, lost: [] });
      expect({ name, seed, took, inTime: took <= CONVERGES * slownessAtStart() }).toMatchObject({ inTime: true });
      long.end();
      await pickers.countsAgree(0);
    }
    tell(`seed ${seed}: agreed after ${worst.toFixed(0)} ms at most`);
  });
});
