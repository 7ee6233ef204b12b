import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { queueOf } from "../../../../test/support/brokers/broker.cases.ts";
import { CaseFolder, NO_EVENTS } from "../../../../test/support/brokers/sqlite/fixture.cases.ts";
import type { Broker } from "../../../async/brokers/broker.ts";
import { sqliteBroker } from "../../../async/brokers/sqlite/broker.ts";
import { DemoBacklog } from "./backlog.ts";
import { endLine, phaseTable } from "./summary.ts";

const QUEUE = { ...queueOf("b"), resultQueueName: "b-results" };

describe("DemoBacklog", () => {
  let place: CaseFolder;
  let broker: Broker;

  beforeEach(() => {
    place = new CaseFolder();
    broker = sqliteBroker({ ...place.settings(), queues: [QUEUE], resultQueueName: "b-results" }, place.deps);
    broker.start(NO_EVENTS);
  });
  afterEach(async () => {
    await broker.close();
    place.remove();
  });

  const backlog = (): DemoBacklog =>
    new DemoBacklog({ path: place.path, queueName: "b", count: 20, seed: 1, clock: place.clock });

  /** Gives `count` messages of the queue a result. */
  async function answer(count: number, statusCode: number): Promise<void> {
    const { claims } = await broker.claim(QUEUE, { max: count, expired: 0 });
    const answer = {
      statusCode,
      payload: Buffer.from("{}"),
      errorCode: "",
      errorMessage: "",
      contentType: "",
    } as const;
    await broker.settle(
      claims.map((claim) => ({ kind: "result", claim, result: { id: claim.message.request.id, ...answer } })),
    );
  }

  it("finds every message that has one result", async () => {
    const work = backlog();
    await work.enqueue();
    expect(await work.depths()).toEqual({ waiting: 20, done: 0 });
    await answer(20, 200);
    expect(await work.depths()).toEqual({ waiting: 0, done: 20 });
    expect(await work.collect()).toEqual({ queued: 20, results: 20, lost: 0, twice: 0, failed: 0 });
  });

  it("notices what is lost, what came twice and what is no answer", async () => {
    const work = backlog();
    await work.enqueue();
    await answer(17, 200);
    await answer(2, 500);
    await work.enqueue();
    await answer(5, 200);
    const tally = await work.collect();
    expect(tally).toEqual({ queued: 20, results: 24, lost: 0, twice: 4, failed: 2 });
    const rest = backlog();
    expect(await rest.collect()).toEqual({ queued: 20, results: 0, lost: 20, twice: 0, failed: 0 });
    const inFlight = { before: 21, during: 3, after: 20, least: 2 };
    expect(endLine({ ...tally, seconds: 23.61, kills: 1, inFlight })).toBe(
      "24 results for 20 messages after 23.6 s: 0 lost, 4 twice, 2 of the results have no answer of a server",
    );
  });
});

describe("phaseTable", () => {
  it("puts the acts side by side, each against realtime traffic alone, in 80 columns", () => {
    const realtime = (p99: number) => ({ requests: 1570, failed: 0, interrupted: 0, ttftMs: { p50: 26, p99 } });
    const backlog = {
      ...{ queued: 192, results: 192, lost: 0, twice: 0, failed: 0, seconds: 24.6, kills: 1 },
      inFlight: { before: 20.9, during: 2.8, after: 19.7, least: 1 },
    };
    const machine = { lagMs: { p90: 1, max: 2 }, tooBusy: false };
    const lines = phaseTable([
      { name: "realtime alone", realtime: realtime(50), ...machine },
      { name: "backlog, gate", realtime: realtime(60), backlog, ...machine },
      {
        name: "backlog, no gate",
        realtime: realtime(3287),
        backlog: { ...backlog, seconds: 9.4, kills: 0 },
        ...machine,
      },
    ]);
    expect(lines[2]).toMatch(/^backlog, gate .* 60 ms +1\.2x +192\/192 +24\.6 s$/);
    expect(lines[3]).toMatch(/3287 ms +65\.7x/);
    expect(lines.at(-2)).toContain("behind the gate: 20.9, in the wave 2.8, after it 19.7.");
    expect(lines.at(-1)).toBe("384 messages: 0 lost, 0 with two results; the dispatcher was killed once.");
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  });
});
