import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { errorResult } from "../brokers/messages/result.ts";
import { LineQueue } from "./line-queue.ts";
import type { QueuedLine } from "./queued-lines.ts";

/** A line of the slow model. */
interface ModelLine {
  readonly number: number;
  readonly batch: number;
  state: "waiting" | "claimed" | "parked";
  /** It was claimed before. */
  again: boolean;
  due: number;
}

const PLACE = { path: "/nowhere", start: 0, length: 0 };
const DEADLINES = [3000, 2000, 3000];

const STEP = fc.oneof(
  fc.record({ kind: fc.constant("submit" as const), batch: fc.nat(2), count: fc.integer({ min: 1, max: 4 }) }),
  fc.record({ kind: fc.constant("claim" as const), count: fc.nat(5) }),
  fc.record({
    kind: fc.constantFrom("answer" as const, "back" as const, "park" as const, "withdraw" as const),
    at: fc.nat(20),
    pause: fc.nat(30),
  }),
  fc.record({ kind: fc.constant("pass" as const), ms: fc.nat(20) }),
);

describe("the queue of lines", () => {
  it("agrees with a slow model in every order of events", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(STEP, { maxLength: 80, size: "max" }), async (steps) => {
        const clock = new VirtualClock(0);
        const queue = new LineQueue(clock);
        const producers = await Promise.all(DEADLINES.map((_, n) => queue.producer("lane", `r${n}`)));
        const held = new Map<number, QueuedLine>();
        let model: ModelLine[] = [];
        let answered = 0;
        let next = 0;
        const stateIs = (state: ModelLine["state"]) => model.filter((line) => line.state === state);
        for (const step of steps) {
          if (step.kind === "submit") {
            const numbers = Array.from({ length: step.count }, () => next++);
            await producers[step.batch]!.submitRequests(
              numbers.map((n) => ({ id: `${n}`, deadline: DEADLINES[step.batch]!, payload: "", place: PLACE })),
            );
            for (const number of numbers)
              model.push({ number, batch: step.batch, state: "waiting", again: false, due: 0 });
          } else if (step.kind === "claim") {
            const waiting = stateIs("waiting");
            const taken = queue.claim("lane", 0, step.count, 0).map((line) => {
              const number = Number(line.request.id);
              held.set(number, line);
              return waiting.find((each) => each.number === number)!;
            });
            expect(taken).not.toContain(undefined);
            expect(new Set(taken).size).toBe(Math.min(step.count, waiting.length));
            const left = waiting.filter((line) => !taken.includes(line));
            for (const [place, line] of taken.entries()) {
              const later = [...taken.slice(place + 1), ...left];
              for (const other of later) {
                expect(DEADLINES[other.batch]).toBeGreaterThanOrEqual(DEADLINES[line.batch]!);
                // Within a batch, what came back goes first, and the rest in its order.
                if (other.batch !== line.batch || line.again) continue;
                expect(other.again).toBe(false);
                expect(other.number).toBeGreaterThan(line.number);
              }
            }
            for (const line of taken) Object.assign(line, { state: "claimed", again: true });
          } else if (step.kind === "withdraw") {
            const line = model[step.at % Math.max(1, model.length)];
            if (line === undefined) continue;
            const goes = line.state !== "claimed";
            expect(await queue.withdraw([`${line.number}`])).toEqual([goes]);
            if (goes) model = model.filter((other) => other !== line);
          } else if (step.kind === "pass") {
            await clock.advanceAsync(step.ms);
            queue.moveDue();
            for (const line of stateIs("parked")) if (line.due <= clock.now()) line.state = "waiting";
          } else {
            const claimed = stateIs("claimed");
            const line = claimed[step.at % Math.max(1, claimed.length)];
            if (line === undefined) continue;
            const real = held.get(line.number)!;
            if (step.kind === "answer") {
              queue.answer(real, errorResult(real.request.id, "CANCELLED", ""));
              model = model.filter((other) => other !== line);
              answered++;
            } else if (step.kind === "back") {
              queue.putBack(real);
              line.state = "waiting";
            } else {
              queue.park(real, step.pause);
              Object.assign(line, { state: "parked", due: clock.now() + step.pause });
            }
          }
          const first = stateIs("waiting").map(({ batch }) => DEADLINES[batch]!);
          expect(queue.backlog("lane")).toMatchObject({
            ...{ waiting: first.length, claimed: stateIs("claimed").length, retries: stateIs("parked").length },
            nextDeadline: first.length === 0 ? Number.NaN : Math.min(...first),
          });
        }
        const there = await queue.outstanding(Array.from({ length: next }, (_, n) => `${n}`));
        expect(there.flatMap((isThere, n) => (isThere ? [n] : []))).toEqual(model.map(({ number }) => number));
        const results = await Promise.all(DEADLINES.map((_, n) => queue.inbox(`r${n}`).read(1000)));
        expect(results.flat()).toHaveLength(answered);
      }),
    );
  });
});
