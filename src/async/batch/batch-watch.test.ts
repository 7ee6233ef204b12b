import { describe, expect, it } from "vitest";
import { BatchWatch } from "./batch-watch.ts";

describe("BatchWatch", () => {
  const backlog = { waiting: 0, claimed: 0, retries: 0, dead: 0, nextDeadline: Number.NaN };

  function watch() {
    const said: string[] = [];
    const figures = { ...backlog };
    const made = new BatchWatch(
      "q",
      async () => figures,
      (text) => said.push(text),
      0,
    );
    return { watch: made, figures, said };
  }

  it("says after some seconds that nobody takes anything, once a minute", async () => {
    const { watch: watched, figures, said } = watch();
    figures.waiting = 10;
    for (let now = 0; now <= 60; now++) await watched.look(now, 10);
    expect(said).toEqual([
      'nothing was taken from queue "q" for 5s: is a dispatcher running on it (sluice dispatch), and is its gate open (/debug/gates)?',
    ]);
    for (let now = 61; now <= 66; now++) await watched.look(now, 10);
    expect(said).toHaveLength(2);
  });

  it("is quiet while answers come, and while a dispatcher is at work", async () => {
    const { watch: watched, figures, said } = watch();
    figures.waiting = 10;
    for (let now = 0; now <= 100; now += 4) {
      await watched.look(now, 10);
      watched.progress(now);
    }
    figures.claimed = 2;
    for (let now = 101; now <= 200; now++) await watched.look(now, 10);
    expect(said).toEqual([]);
    for (let now = 201; now <= 230; now++) await watched.look(now, 10);
    expect(said).toEqual([
      expect.stringMatching(/^no answer for 2m [0-9]s: 2 requests of queue "q" are with a dispatcher/),
    ]);
  });

  it("tells retries and lost requests from those; what is not known is no reason", async () => {
    for (const [over, wanted] of [
      [{ retries: 7 }, /7 requests wait to be tried again; does the gateway answer\?/],
      [{}, /^3 requests are in no queue any more/],
      [{ waiting: Number.NaN, claimed: Number.NaN, retries: Number.NaN }, undefined],
    ] as const) {
      const { watch: watched, figures, said } = watch();
      Object.assign(figures, over);
      await watched.look(6, 3);
      expect(said).toEqual(wanted === undefined ? [] : [expect.stringMatching(wanted)]);
    }
  });
});
