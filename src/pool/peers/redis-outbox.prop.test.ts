import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MOST_BYTES, MOST_WAITING, Outbox } from "./redis-outbox.ts";

const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("placed" as const), size: fc.integer({ min: 0, max: 40 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("many" as const), size: fc.integer({ min: 0, max: 1200 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("load" as const), size: fc.nat(9) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("take" as const), size: fc.boolean() }) },
);

/** The messages of the log as a plain list, with its bounds written down once more. */
class Model {
  list: Buffer[] = [];
  load: Buffer | undefined;
  dropped = 0;

  put(frame: Buffer): void {
    this.list.push(frame);
    while (this.list.length > 1024 || bytesOf(this.list) > 4 << 20) {
      this.list.shift();
      this.dropped++;
    }
  }
}

const bytesOf = (list: readonly Buffer[]): number => list.reduce((sum, { length }) => sum + length, 0);

describe("the messages that wait for the store", () => {
  it("are those of a plain list with a bound: the newest load, the newest messages of the log in their order", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const outbox = new Outbox();
        const model = new Model();
        const put = (frame: Buffer): void => {
          outbox.putPlaced(frame);
          model.put(frame);
        };
        for (const { kind, size } of steps) {
          if (kind === "placed") put(Buffer.alloc(size * 10_000));
          else if (kind === "many") for (let i = 0; i < size; i++) put(Buffer.from(String(i)));
          else if (kind === "load") {
            model.load = Buffer.alloc(size);
            outbox.putLoad(model.load);
          } else {
            const batch = outbox.take(true);
            expect(batch.load).toBe(model.load);
            model.load = undefined;
            expect(batch.placed).toEqual(model.list.splice(0, 64));
            if (size === true) {
              outbox.giveBack(batch.placed);
              model.list.unshift(...batch.placed);
            }
          }
          expect(outbox.waiting).toBe(model.list.length);
          expect(outbox.dropped).toBe(model.dropped);
          expect(outbox.hasLoad).toBe(model.load !== undefined);
        }
      }),
      { numRuns: 30 },
    );
  });

  it("never have more bytes than their bound", () => {
    const outbox = new Outbox();
    const quarter = Buffer.alloc(MOST_BYTES / 4);
    for (let i = 0; i < 6; i++) outbox.putPlaced(quarter);
    expect([outbox.waiting, outbox.dropped]).toEqual([4, 2]);
    expect(MOST_BYTES).toBe(4 << 20);
  });

  it("never take more room than their bounds, whatever comes back", () => {
    const outbox = new Outbox();
    const full = (): void => {
      for (let i = 0; i < MOST_WAITING; i++) outbox.putPlaced(Buffer.of(i & 255));
    };
    full();
    const { placed } = outbox.take(true);
    full();
    const before = outbox.dropped;
    outbox.giveBack(placed);
    expect(outbox.waiting).toBe(MOST_WAITING);
    expect(outbox.dropped).toBe(before + placed.length);
    outbox.putPlaced(Buffer.alloc(MOST_BYTES + 1));
    expect(outbox.dropped).toBe(before + placed.length + 1);
    expect(outbox.waiting).toBe(MOST_WAITING);
    outbox.putLoad(Buffer.of(1));
    expect(outbox.take(false)).toEqual({ load: Buffer.of(1), placed: [] });
    outbox.clear();
    expect(outbox.waiting).toBe(0);
    expect(outbox.dropped).toBe(before + placed.length + 1 + MOST_WAITING);
  });
});
