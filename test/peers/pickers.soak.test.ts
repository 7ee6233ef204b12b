import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freshRandom, SeededRandom } from "../../src/base/clock/random.ts";
import { poll } from "../support/poll.ts";
import { Pickers, peersOf } from "./pickers.ts";

/** How often something breaks. */
const ROUNDS = 24;
const PROMPTS = 20;

const prompt = (n: number): string => `document ${n}: ${`clause ${n} of the contract says so. `.repeat(100)}`;

describe("three pickers that share, while everything breaks in turn", () => {
  let pickers: Pickers;
  const seed = Number(process.env["SLUICE_SEED"]) || freshRandom().state;
  const random = new SeededRandom(seed);

  beforeAll(async () => {
    pickers = await Pickers.start();
    await pickers.allHear(2);
  });
  afterAll(() => pickers?.stop());

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
  ];

  it("come to one truth after each fault, and lose requests only with a picker", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const { name, loses, run } = FAULTS[random.below(FAULTS.length)]!;
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
      await pickers.allHear(2);
      await pickers.countsAgree();
      if (!loses)
        expect({ name, seed, lost: statuses.filter((status) => status !== 200) }).toEqual({ name, seed, lost: [] });
      long.end();
      await pickers.countsAgree(0);
    }
  });
});
