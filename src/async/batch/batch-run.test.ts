import { existsSync, readFileSync, writeFileSync } from "node:fs";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { BatchHarness, batchLine } from "../../../test/support/batch/batch.cases.ts";
import { answer, type HarnessOptions } from "../../../test/support/dispatch/harness.cases.ts";
import { fixedLimit } from "../../../test/support/slowness.ts";
import type { QueueClient } from "../brokers/queue-client.ts";
import type { BatchFiles } from "./batch-files.ts";

const made: BatchHarness[] = [];

function harness(options: HarnessOptions = {}): BatchHarness {
  const one = new BatchHarness(options);
  made.push(one);
  return one;
}

afterEach(() => {
  for (const one of made.splice(0)) one.remove();
});

describe("BatchRun", () => {
  it("brings every line to one answer, with its own body and path", async () => {
    const h = harness();
    h.writeLines(50);
    h.start();
    h.gateway.reply = (request) => answer(200, { body: Buffer.from(`{"path":"${request.url.pathname}"}`) });
    const run = await h.begin();
    await h.finish(run);
    expect(run.state.error).toBeUndefined();
    expect(h.answers().size).toBe(50);
    expect(h.answers().get("c17")).toEqual({
      id: "batch-0123456789abcdef-17",
      custom_id: "c17",
      response: {
        status_code: 200,
        request_id: "batch-0123456789abcdef-17",
        body: { path: "/v1/chat/completions" },
      },
      error: null,
    });
    expect(run.figures).toEqual({ total: 50, done: 50, failed: 0, underWay: 0 });
    const sent = h.gateway.requests.find(({ headers }) => headers.includes("batch-0123456789abcdef-17"))!;
    expect(Buffer.from(sent.body).toString()).toBe('{"prompt":"c17"}');
    expect(existsSync(`${h.outputPath}.journal`)).toBe(false);
  });

  it("keeps no more requests queued than the window", async () => {
    const h = harness();
    h.writeLines(60);
    const run = await h.begin({ window: 10 });
    await h.run(3000);
    expect(run.figures.underWay).toBe(10);
    expect(h.store.queue("q").size).toBe(10);
    h.start();
    await h.finish(run);
    expect(h.answers().size).toBe(60);
  });

  it("says when nobody takes anything, and goes on when somebody does", async () => {
    const h = harness();
    h.writeLines(3);
    const run = await h.begin();
    await h.run(8000);
    expect(run.notices).toEqual([
      expect.stringMatching(/^no request has left queue "q" in the last \ds: does a dispatcher/),
    ]);
    h.start();
    await h.finish(run);
    expect(h.answers().size).toBe(3);
  });

  it("errors are lines of the same shape, and are counted", async () => {
    const h = harness();
    h.write(batchLine("ok"), batchLine("refused"), batchLine("late"));
    h.gateway.reply = (request) => {
      const text = Buffer.from(request.body).toString();
      return text.includes("ok") ? answer(200) : text.includes("refused") ? answer(400) : answer(503);
    };
    h.start();
    const run = await h.begin({ deadline: 60 });
    await h.finish(run);
    expect(run.figures).toMatchObject({ done: 3, failed: 2 });
    expect(h.answers().get("refused")).toMatchObject({
      response: { status_code: 400, body: { status: 400 } },
      error: null,
    });
    expect(h.answers().get("late")).toMatchObject({ response: { status_code: 503 } });
  });

  it("what could not be submitted before the deadline ends as an error, too", async () => {
    const h = harness();
    h.writeLines(5);
    const run = await h.begin({ window: 2, deadline: 100 });
    await h.run(200_000);
    h.start();
    await h.finish(run);
    expect(h.answers().get("c1")?.error).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    expect(h.answers().get("c5")?.error).toMatchObject({ code: "BATCH_EXPIRED" });
    expect(run.figures).toMatchObject({ done: 5, failed: 5 });
    expect(h.gateway.requests).toHaveLength(0);
  });

  it("with skipInvalid lines that cannot be sent are answered with an error, those without an id of their own as null", async () => {
    const h = harness();
    h.write(batchLine("a"), "garbage", batchLine("b", { method: "GET" }), batchLine("c"), batchLine("c"));
    h.start();
    const run = await h.begin({ skipInvalid: true });
    await h.finish(run);
    const lines = readFileSync(h.outputPath, "utf8")
      .trim()
      .split("\n")
      .map((text) => JSON.parse(text));
    expect(lines.filter(({ error }) => error !== null)).toEqual([
      expect.objectContaining({
        custom_id: null,
        error: { code: "INVALID_LINE", message: expect.stringContaining("line 2: not valid JSON") },
      }),
      expect.objectContaining({
        custom_id: "b",
        error: { code: "INVALID_LINE", message: 'line 3: method must be "POST", not "GET"' },
      }),
      expect.objectContaining({
        custom_id: null,
        error: { code: "INVALID_LINE", message: 'line 5: custom_id "c" is also on line 4' },
      }),
    ]);
    expect(run.figures).toEqual({ total: 5, done: 5, failed: 3, underWay: 0 });
    // Once more: they are known.
    const again = await h.begin({ skipInvalid: true });
    await h.finish(again);
    expect(again.figures).toEqual({ total: 5, done: 5, failed: 3, underWay: 0 });
    expect(readFileSync(h.outputPath, "utf8").trim().split("\n")).toHaveLength(5);
  });

  it("waits through an outage of the broker, says so once, and submits nothing twice", async () => {
    for (const fault of ["away", "answer-lost"] as const) {
      const h = harness();
      h.writeLines(100);
      const run = await h.begin({ window: 100 });
      await h.run(2);
      h.store.fault = fault;
      await h.run(10_000);
      h.store.fault = "none";
      h.start();
      await h.finish(run);
      expect(h.answers().size).toBe(100);
      expect(new Set(h.gateway.ids).size).toBe(h.gateway.ids.length);
      expect(run.notices.filter((text) => text.includes("the batch waits until the store answers again"))).toHaveLength(
        1,
      );
    }
  });

  it("throws away what is in its result queue and no result of it", async () => {
    const h = harness();
    h.writeLines(2);
    const run = await h.begin();
    for (const text of ["garbage", '{"id":"x"}', '{"id":"batch-0123456789abcdef-99"}'])
      h.store.pushResult("batch-0123456789abcdef-results", text);
    h.start();
    await h.finish(run);
    expect(h.answers().size).toBe(2);
    expect(run.notices).toHaveLength(3);
  });
});

/** What kills the run, and nothing else throws. */
class Killed extends Error {}

/** Lets a run die at its n-th step: before a call has done anything, after it, or with half of what it wrote on the disk. */
function dying(h: BatchHarness, at: number, half: number) {
  let step = 0;
  const killed = (): boolean => ++step === at;
  return (client: QueueClient, files: BatchFiles): QueueClient => {
    const append = files.output.append.bind(files.output);
    files.output.append = (lines) => {
      if (lines.length > 0 && killed()) {
        const text = lines.join("");
        h.tear(text.slice(0, half % text.length));
        throw new Killed();
      }
      append(lines);
      if (lines.length > 0 && killed()) throw new Killed();
    };
    const around = <A extends readonly unknown[], R>(work: (...args: A) => Promise<R>) => {
      return async (...args: A): Promise<R> => {
        if (killed()) throw new Killed();
        const value = await work(...args);
        if (killed()) throw new Killed();
        return value;
      };
    };
    return {
      ...client,
      outstanding: around(client.outstanding),
      async producer(requests, results) {
        const producer = await client.producer(requests, results);
        producer.submitRequests = around(producer.submitRequests.bind(producer));
        return producer;
      },
      inbox(name) {
        const inbox = client.inbox(name);
        return { read: around(inbox.read), remove: around(inbox.remove) };
      },
    };
  };
}

describe("going on after any end", () => {
  it("every line is submitted once and answered once, wherever the runs before died", {
    timeout: fixedLimit(60_000),
  }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ at: fc.integer({ min: 1, max: 25 }), half: fc.nat(2000), pause: fc.nat(300) }), {
          maxLength: 6,
        }),
        fc.integer({ min: 1, max: 12 }),
        async (deaths, window) => {
          const h = harness({ workers: 4 });
          h.writeLines(30);
          h.start();
          for (const { at, half, pause } of deaths) {
            const run = await h.begin({ window, wrap: dying(h, at, half) });
            await h.finish(run);
            if (run.state.error !== undefined && !(run.state.error instanceof Killed)) throw run.state.error;
            await h.run(pause);
          }
          const last = await h.begin({ window });
          await h.finish(last);
          expect(last.state.error).toBeUndefined();
          expect([...h.answers().keys()].sort()).toEqual(Array.from({ length: 30 }, (_, at) => `c${at + 1}`).sort());
          expect(h.gateway.ids).toHaveLength(30);
          expect(h.store.results("batch-0123456789abcdef-results")).toEqual([]);
        },
      ),
      { numRuns: 25 },
    );
  });

  it("an interrupted run leaves what was answered, and the next one does the rest", async () => {
    const h = harness({ workers: 2 });
    h.writeLines(20);
    h.start();
    const first = await h.begin();
    await h.run(70);
    first.abort.abort(new Error("stop"));
    await h.finish(first);
    const before = h.answers().size;
    expect(before).toBeGreaterThan(0);
    expect(before).toBeLessThan(20);
    const second = await h.begin();
    expect(second.files.done).toBe(before);
    await h.finish(second);
    expect(h.answers().size).toBe(20);
    expect(h.gateway.ids).toHaveLength(20);
  });

  it("answers that somebody removed are asked for again, and only those", async () => {
    const h = harness();
    h.write(batchLine("a"), batchLine("b"), batchLine("c"));
    h.gateway.reply = (request) => answer(Buffer.from(request.body).toString().includes("b") ? 400 : 200);
    h.start();
    await h.finish(await h.begin());
    const kept = readFileSync(h.outputPath, "utf8")
      .split("\n")
      .filter((text) => !text.includes('"status_code":400'));
    writeFileSync(h.outputPath, kept.join("\n"));
    h.gateway.reply = () => answer(200);
    const again = await h.begin();
    await h.finish(again);
    expect(again.figures).toMatchObject({ total: 3, done: 3, failed: 0 });
    expect(h.answers().size).toBe(3);
    expect(h.gateway.requests).toHaveLength(4);
  });

  it("requests that the broker has lost are submitted again by the next run", async () => {
    const h = harness();
    h.writeLines(5);
    const first = await h.begin();
    await h.run(100);
    await h.producer.clearRequestQueue();
    await h.run(10_000);
    expect(first.notices).toEqual([expect.stringMatching(/^5 requests left their queue without a result/)]);
    first.abort.abort(new Error("stop"));
    await h.finish(first);
    h.start();
    await h.finish(await h.begin());
    expect(h.answers().size).toBe(5);
  });
});
