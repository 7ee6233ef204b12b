import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { queueOf } from "../../../../test/support/brokers/broker.cases.ts";
import type { Mode } from "../../../../test/support/brokers/sqlite/dispatcher-process.cases.ts";
import { CaseFolder } from "../../../../test/support/brokers/sqlite/fixture.cases.ts";
import { poll } from "../../../../test/support/poll.ts";
import { TestProcess } from "../../../../test/support/process.ts";
import { fixedLimit } from "../../../../test/support/slowness.ts";
import type { Clock } from "../../../base/clock/clock.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { realClock } from "../../../base/clock/real.ts";
import type { Producer } from "../queue-client.ts";
import { sqliteBroker } from "./broker.ts";
import { sqliteProducer } from "./producer.ts";

const PROGRAM = join(import.meta.dirname, "../../../../test/support/brokers/sqlite/dispatcher-process.cases.ts");
const LIMIT = 60_000;
/** A deadline, Unix seconds. */
const FAR = 4_000_000_000;

/** The pause before a locked file is tried again passes; the interval after which a reader looks by itself never does. */
const withoutPolling: Clock = {
  ...realClock,
  after: (ms, callback, background) =>
    ms < 100 ? realClock.after(ms, callback, background) : { cancel: () => undefined },
};

describe("several processes on one queue file", () => {
  let folder: CaseFolder;
  let producer: Producer;
  let running: TestProcess[];

  beforeEach(() => {
    folder = new CaseFolder();
    running = [];
  });

  afterEach(async () => {
    for (const each of running) await each.stop();
    await producer.close();
    folder.remove();
  });

  const run = (mode: Mode): TestProcess => {
    const started = new TestProcess(process.execPath, [PROGRAM, folder.path, mode]);
    running.push(started);
    return started;
  };
  const make = (clock: Clock): Producer => {
    const names = { path: folder.path, requestQueueName: "q", resultQueueName: "results" };
    return sqliteProducer(names, { clock, random: folder.random, log: folder.log });
  };

  it("submissions wake a dispatcher up, and results their reader: nobody polls here", {
    timeout: fixedLimit(LIMIT),
  }, async () => {
    // Neither the dispatcher nor the reader looks by itself.
    producer = make(withoutPolling);
    const dispatcher = run("woken");
    const submit = (id: string): Promise<void> => producer.submitRequest({ id, deadline: FAR, payload: {} });
    let early = 0;
    await poll("the dispatcher is there", async () => {
      if (dispatcher.exit !== undefined) throw new Error(dispatcher.stderr);
      await submit(`early${early++}`);
      return (await producer.resultQueueDepth()) > 0;
    });
    while (early-- > 0) await producer.getResult();
    for (let at = 0; at < 30; at++) {
      const [result] = await Promise.all([producer.getResult(), submit(`m${at}`)]);
      expect(result.id).toBe(`m${at}`);
    }
  });

  it("A-43 processes that are killed at any point lose nothing and do nothing twice", {
    timeout: fixedLimit(LIMIT),
  }, async () => {
    const total = 400;
    producer = make(realClock);
    const random = new SeededRandom(7);
    await producer.submitRequests(
      Array.from({ length: total }, (_, at) => ({ id: `m${at}`, deadline: FAR, payload: { at } })),
    );
    run("busy");
    let target = 0;
    for (let kills = 0; kills < 8; kills++) {
      run("busy");
      target = Math.min(total, target + 1 + random.below(60));
      await poll(`${target} results`, async () => (await producer.resultQueueDepth()) >= target, LIMIT);
      // The older of two, at whatever it is doing now.
      await running.shift()!.stop("SIGKILL");
    }
    await poll("all results", async () => (await producer.resultQueueDepth()) >= total, LIMIT);
    const ids = new Set<string>();
    for (let at = 0; at < total; at++) ids.add((await producer.getResult()).id);
    expect(ids.size).toBe(total);
    expect(await producer.resultQueueDepth()).toBe(0);
    const broker = sqliteBroker(folder.settings(), { clock: realClock, random, log: folder.log });
    expect(await broker.backlog(queueOf("q"))).toMatchObject({ waiting: 0, claimed: 0, retries: 0, dead: 0 });
    await broker.close();
  });
});
