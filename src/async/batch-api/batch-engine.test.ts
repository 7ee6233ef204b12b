import { readdirSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EngineRig, engineRigs, inputLine, inputLines } from "../../../test/support/batch-api/engine-rig.cases.ts";
import { fixedLimit } from "../../../test/support/slowness.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { flowHeaders, laneQueue } from "./batch-task.ts";

const rig = engineRigs();

describe("BatchEngine", () => {
  it("takes a batch from its input to one answer for each line, with counts and tokens", async () => {
    const r = rig();
    r.engine.start();
    const id = r.batch(inputLines(30));
    r.engine.wake();
    expect(r.get(id).status).toBe("validating");
    const batch = await r.finish(id);
    expect(batch).toMatchObject({ status: "completed", total: 30, completed: 30, failed: 0, unanswered: 0 });
    expect(batch).toMatchObject({ inputTokens: 90, outputTokens: 60, hasOutput: true, hasErrors: false });
    const { validating, ...reached } = batch.reached as Record<string, number>;
    expect([validating, Object.keys(reached)]).toEqual([undefined, ["in_progress", "finalizing", "completed"]]);
    expect([...r.answers(id).keys()].sort()).toEqual(Array.from({ length: 30 }, (_, at) => `c${at + 1}`).sort());
    expect(r.store.files.find("", batch.outputFileId)).toMatchObject({ purpose: "batch_output", owner: "" });
    expect(readdirSync(join(r.folder.path, "files")).sort()).toEqual([batch.inputFileId, batch.outputFileId].sort());
    await r.engine.stop();
  });

  it("names the flow of the caller to a gateway of another process, and never its objective, whose priority may be higher", () => {
    const caller = { id: "1", name: "alice", objective: "critical", priority: 9 };
    expect(flowHeaders({ caller })).toEqual({ "x-gateway-inference-fairness-id": "alice" });
    expect(flowHeaders({ caller: { ...caller, fairnessId: "team" } })).toEqual({
      "x-gateway-inference-fairness-id": "team",
    });
    expect(flowHeaders({ caller: { id: "", name: "" } })).toEqual({});
  });

  it("puts answers that report an error into the file of errors", async () => {
    const r = rig();
    r.engine.start();
    const id = r.batch(inputLines(6));
    const batch = await r.finish(id, (_, body) => ({
      statusCode: body.includes("c3") ? 400 : 200,
      payload: Buffer.from("{}"),
    }));
    expect(batch).toMatchObject({ status: "completed", completed: 5, failed: 1, hasErrors: true });
    expect(r.answers(id).get("c3")).toMatchObject({ response: { status_code: 400 }, error: null });
    await r.engine.stop();
  });

  it("sends each body byte for byte, whatever stands before it", async () => {
    const r = rig();
    r.engine.start();
    const bodies = [
      '{"model": "m",  "prompt": "ü"}',
      '{"model":"m","prompt":"b"}',
      '{"model":"m","prompt":"\u{1f600}"}',
    ];
    const start = '"method":"POST","url":"/v1/chat/completions"';
    const id = r.batch(
      `\ufeff{"custom_id":"é",${start},"body":${bodies[0]}}\r\n` +
        `\r\n{"body":${bodies[1]},"custom_id":"\u{1f600}",${start}}\n` +
        `  {"other":"ß","custom_id":"c",${start},"body":  ${bodies[2]}}`,
    );
    const sent: string[] = [];
    await r.finish(id, (_, body) => {
      sent.push(body);
      return { statusCode: 200, payload: Buffer.from("{}") };
    });
    expect(r.get(id)).toMatchObject({ status: "completed", completed: 3 });
    expect(sent).toEqual(bodies);
  });

  it("refuses an input with a line that cannot be sent, and submits nothing", async () => {
    const r = rig();
    r.engine.start();
    const id = r.batch(`${inputLine("a")}${inputLine("a")}{"x\n`);
    await r.pass(2000);
    expect(r.get(id)).toMatchObject({ status: "failed", total: 3, submitted: 0 });
    expect(r.get(id).problems.map(({ line, code }) => [line, code])).toEqual([
      [2, "duplicate_custom_id"],
      [3, "invalid_json_line"],
    ]);
    expect(await r.claim(9)).toEqual([]);
  });

  it("keeps no more lines in the queue than the window", async () => {
    const r = rig({ window: 4 });
    r.engine.start();
    const id = r.batch(inputLines(20));
    await r.pass(5000);
    expect(r.get(id)).toMatchObject({ status: "in_progress", underWay: 4 });
    expect(await r.claim(20)).toHaveLength(4);
    r.crash();
    await r.pass(5000);
    // What a note ran ahead is found missing, and waits for its turn.
    expect(r.get(id)).toMatchObject({ status: "in_progress", underWay: 4 });
    expect(await r.claim(20)).toHaveLength(4);
  });

  it("gives an error to each line that the deadline leaves", async () => {
    const r = rig({ window: 5 });
    r.engine.start();
    const id = r.batch(inputLines(12), { seconds: 30 });
    await r.pass(1000);
    await r.settle(await r.claim(3));
    await r.pass(31_000);
    const batch = await r.finish(id);
    expect(batch).toMatchObject({ status: "expired", completed: 3, failed: 9, unanswered: 9 });
    expect(r.answers(id).size).toBe(12);
    expect([...r.answers(id).values()].filter(({ error }) => error?.code === "batch_expired")).toHaveLength(9);
  });

  it("ends a cancelled batch: what runs may end, the rest gets an error", async () => {
    const r = rig({ window: 6 });
    r.engine.start();
    const id = r.batch(inputLines(20));
    await r.pass(1000);
    const running = await r.claim(2);
    expect(r.store.batches.move(id, "cancelling", r.clock.wall() / 1000)).toBe(true);
    await r.pass(3000);
    // The four others of the window have left the queue, though no dispatcher took them.
    expect(await r.claim(9)).toEqual([]);
    expect(r.get(id).status).toBe("cancelling");
    await r.settle(running);
    const batch = await r.finish(id);
    expect(batch).toMatchObject({ status: "cancelled", total: 20, completed: 2, failed: 18 });
    expect(r.answers(id).size).toBe(20);
    expect(r.answers(id).get("c20")?.error?.code).toBe("batch_cancelled");
    // No line came into the queue after the cancellation, not even for a moment.
    expect(r.submitted).toBe(6);
  });

  it("ends a batch that was cancelled before its check", async () => {
    const r = rig();
    const id = r.batch(inputLines(3));
    r.store.batches.move(id, "cancelling", 1);
    r.engine.start();
    await r.pass(2000);
    expect(r.get(id)).toMatchObject({ status: "cancelled", total: 0, hasOutput: false, hasErrors: false });
  });

  it("gives callers queues of their own, so that none waits for another one's batch", async () => {
    const r = rig();
    r.engine.start();
    const lanes = ["a", "b", "a"].map((owner) => r.get(r.batch(inputLines(1), { owner })).lane);
    expect(lanes).toEqual([0, 1, 0]);
    expect(laneQueue(1)).toBe("batch-lane-1");
  });

  it("shows what holds a batch up, and goes on by itself", async () => {
    const r = rig();
    const id = r.batch(inputLines(2));
    const { remove } = r.store.folder;
    remove.call(r.store.folder, r.get(id).inputFileId);
    r.engine.start();
    await r.pass(500);
    expect(r.get(id)).toMatchObject({ status: "validating", problem: expect.stringMatching(/ENOENT/) });
    const { writeFileSync } = await import("node:fs");
    writeFileSync(r.folder.content(r.get(id).inputFileId), inputLines(2));
    await r.pass(6000);
    expect((await r.finish(id)).status).toBe("completed");
  });

  it("sends no line a second time that is in the queue when it goes on after a problem", async () => {
    const r = rig();
    const submitted: string[] = [];
    let problems = 0;
    const producer = r.queue.producer.bind(r.queue);
    r.queue.producer = async (...names) => {
      const inner = await producer(...names);
      return {
        ...inner,
        submitRequests: async (requests) => {
          if (submitted.length > 0 && problems++ === 0) throw new SluiceError("BATCH_STORE", "no more handles");
          submitted.push(...requests.map(({ id }) => id));
          await inner.submitRequests(requests);
        },
      };
    };
    r.engine.start();
    const id = r.batch(inputLines(20));
    await r.pass(1000);
    const claims = await r.claim(3);
    await r.settle(claims.slice(0, 2));
    await r.pass(1000);
    expect(r.get(id).problem).toContain("no more handles");
    await r.pass(6000);
    await r.settle(claims.slice(2));
    expect(await r.finish(id)).toMatchObject({ status: "completed", completed: 20 });
    expect([problems > 0, submitted.length, new Set(submitted).size]).toEqual([true, 20, 20]);
    await r.engine.stop();
  });

  it(
    "brings each line to one answer through any ends of the process",
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.tuple(fc.nat(400), fc.nat(6), fc.boolean()), { minLength: 1, maxLength: 12 }),
          fc.constantFrom("none", "cancel", "expire"),
          async (steps, ending) => {
            const r = new EngineRig({ window: 5 });
            try {
              const id = r.batch(inputLines(40), { seconds: ending === "expire" ? 20 : 86_400 });
              r.crash();
              for (const [ms, claims, settles] of steps) {
                await r.pass(ms);
                const taken = await r.claim(claims);
                // What is claimed and not settled has no answer, and is queued again.
                if (settles) await r.settle(taken);
                r.crash();
              }
              if (ending === "cancel") r.store.batches.move(id, "cancelling", r.clock.wall() / 1000);
              await r.pass(61_000);
              const batch = await r.finish(id);
              const { completed, failed, unanswered, status } = batch;
              expect(completed + failed).toBe(40);
              expect(r.answers(id).size).toBe(40);
              expect(failed).toBe(unanswered);
              expect(["completed", ending === "cancel" ? "cancelled" : "expired"]).toContain(status);
            } finally {
              r.remove();
            }
          },
        ),
        { numRuns: 12 },
      );
    },
    fixedLimit(60_000),
  );
});
