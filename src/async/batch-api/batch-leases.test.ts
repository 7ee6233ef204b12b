import { describe, expect, it } from "vitest";
import { EngineRig, engineRigs, inputLines } from "../../../test/support/batch-api/engine-rig.cases.ts";
import { delay } from "../../base/clock/clock.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { HeldBatch } from "./batches.ts";
import { FolderBatches } from "./folder-batches.ts";

const LEASE = 5000;

/** A store that may be away, and whose batches other processes may take. */
class SharedBatches extends FolderBatches {
  override readonly lease: number = LEASE;
  isAway = false;
  epoch = 1;
  isTaken = false;
  readonly taking: boolean[] = [];
  released = 0;
  readonly left: string[] = [];
  /** What comes between the end of a batch in the store and the answer of the store. */
  answering = async (): Promise<void> => {};

  override async look(takesMore?: boolean): Promise<readonly HeldBatch[]> {
    if (this.isAway) throw new SluiceError("BROKER_UNAVAILABLE", "away");
    this.taking.push(takesMore === true);
    return this.isTaken ? [] : (await super.look()).map((batch) => ({ ...batch, epoch: this.epoch }));
  }

  override async move(...args: Parameters<FolderBatches["move"]>): Promise<boolean> {
    const moved = await super.move(...args);
    if (args[1] === "completed") await this.answering();
    return moved;
  }

  override async release(): Promise<void> {
    this.released++;
  }

  override async leave(batch: Parameters<FolderBatches["leave"]>[0]): Promise<void> {
    this.left.push(batch.id);
    await super.leave(batch);
  }
}

class SharedRig extends EngineRig {
  declare shared: SharedBatches;

  override get batches(): SharedBatches {
    this.shared ??= new SharedBatches(this.store);
    return this.shared;
  }
}

const rigs = engineRigs((options) => new SharedRig(options));

/** A rig whose batch has lines under way. */
async function running(seconds = 86_400): Promise<{ r: SharedRig; id: string }> {
  const r = rigs({ window: 6 }) as SharedRig;
  r.engine.start();
  const id = r.batch(inputLines(20), { seconds });
  await r.pass(1000);
  expect(r.get(id).status).toBe("in_progress");
  return { r, id };
}

describe("an engine that shares its batches", () => {
  it("sends no line once its lease may have run out, and goes on when the store says whose they are", async () => {
    const { r, id } = await running();
    const before = await r.claim(2);
    r.shared.isAway = true;
    await r.pass(LEASE - 1000);
    const late = await r.claim(1);
    expect(late).toHaveLength(1);
    await r.pass(1000);
    expect(await r.claim(9)).toEqual([]);
    expect(r.engine.shared).toMatchObject({ held: 1, lost: 0 });
    expect(r.engine.shared!.silence).toBe(LEASE / 1000);
    // Answers of lines that were sent before count.
    await r.settle([...before, ...late]);
    await r.pass(1000);
    r.shared.isAway = false;
    await r.pass(1000);
    expect(r.get(id).completed).toBe(3);
    expect(await r.finish(id)).toMatchObject({ status: "completed", completed: 20 });
    expect(r.submitted).toBe(20);
    await r.engine.stop();
  });

  it("stops its work on a batch that another process has taken, and leaves nothing behind", async () => {
    const { r, id } = await running();
    const claims = await r.claim(2);
    r.shared.isTaken = true;
    await r.pass(1000);
    expect(r.shared.left).toEqual([id]);
    expect(r.engine.shared).toMatchObject({ held: 0, lost: 1 });
    expect(await r.claim(9)).toEqual([]);
    await r.settle(claims);
    await r.pass(1000);
    expect(r.get(id).completed).toBe(0);
    // The batch comes back: all of its lines are queued anew, the ones with an answer that nobody took among them.
    r.shared.isTaken = false;
    r.shared.epoch++;
    expect(await r.finish(id)).toMatchObject({ status: "completed", completed: 20 });
    await r.engine.stop();
  });

  it("begins anew with a batch that came back under another epoch", async () => {
    const { r, id } = await running();
    r.shared.epoch++;
    await r.pass(1000);
    expect(r.shared.left).toEqual([id]);
    expect(await r.finish(id)).toMatchObject({ status: "completed", completed: 20 });
    await r.engine.stop();
  });

  it("sends no line of a batch that another process has ended meanwhile, and does not wait for the lines under way", async () => {
    const { r, id } = await running();
    await r.claim(2);
    r.shared.isTaken = true;
    for (const status of ["cancelling", "cancelled"] as const) await r.shared.move({ id, epoch: 2 }, status, 0);
    await r.pass(1000);
    expect(await r.claim(9)).toEqual([]);
    expect(r.engine.shared).toMatchObject({ held: 0, lost: 1 });
    expect(r.shared.left).toEqual([id]);
    await r.engine.stop();
  });

  it("counts no batch as lost that it has ended itself, though a look came between its end and that of the work", async () => {
    const { r, id } = await running();
    r.shared.answering = () => delay(r.clock, 2000);
    expect(await r.finish(id)).toMatchObject({ status: "completed", completed: 20 });
    await r.pass(1000);
    expect(r.engine.shared).toMatchObject({ held: 1, lost: 0 });
    await r.pass(3000);
    expect(r.engine.shared).toMatchObject({ held: 0, lost: 0 });
    expect(r.shared.left).toEqual([id]);
    await r.engine.stop();
  });

  it("ends a batch whose deadline passed while nobody had it, with one answer for each line", async () => {
    const { r, id } = await running(60);
    await r.settle(await r.claim(4));
    await r.pass(1000);
    expect(r.get(id).completed).toBe(4);
    r.shared.isTaken = true;
    await r.pass(61_000);
    expect(r.get(id)).toMatchObject({ status: "in_progress", completed: 4 });
    r.shared.isTaken = false;
    r.shared.epoch++;
    const before = r.submitted;
    expect(await r.finish(id)).toMatchObject({ status: "expired", completed: 4, failed: 16 });
    const codes = [...r.answers(id).values()].map(({ error }) => error?.code);
    expect(codes.filter((code) => code === "batch_expired")).toHaveLength(16);
    expect([codes.length, r.submitted]).toEqual([20, before]);
    await r.engine.stop();
  });

  it("takes no further batch while it ends, keeps the last answers, and gives its batches back", async () => {
    const { r, id } = await running();
    const claims = await r.claim(3);
    r.engine.drain();
    await r.pass(1000);
    expect([r.shared.taking[0], r.shared.taking.at(-1)]).toEqual([true, false]);
    await r.settle(claims);
    await r.engine.stop();
    expect(r.shared.released).toBe(1);
    r.crash();
    await r.pass(1000);
    expect(r.get(id).completed).toBe(3);
    await r.engine.stop();
  });
});
