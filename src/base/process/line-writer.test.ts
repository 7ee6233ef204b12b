import { describe, expect, it } from "vitest";
import { VirtualClock } from "../clock/virtual.ts";
import { type LineTarget, LineWriter } from "./line-writer.ts";

/** A target that takes what the test lets it take. */
class HandTarget implements LineTarget {
  taken = "";
  closed = false;
  /** Whether each write began a line. */
  readonly starts: boolean[] = [];
  #pending: { readonly bytes: Uint8Array; readonly done: Parameters<LineTarget["write"]>[2] } | undefined;

  write(bytes: Uint8Array, atStart: boolean, done: Parameters<LineTarget["write"]>[2]): void {
    expect(this.#pending).toBeUndefined();
    this.starts.push(atStart);
    this.#pending = { bytes, done };
  }

  close(): void {
    this.closed = true;
  }

  get isAsked(): boolean {
    return this.#pending !== undefined;
  }

  /** Ends the write under way. */
  take(count = Number.POSITIVE_INFINITY): void {
    const { bytes, done } = this.#pending!;
    this.#pending = undefined;
    const part = bytes.subarray(0, count);
    this.taken += Buffer.from(part).toString();
    done(undefined, part.length);
  }

  fail(code: string): void {
    const { done } = this.#pending!;
    this.#pending = undefined;
    done(Object.assign(new Error(code), { code }), 0);
  }
}

function setUp(limit?: number) {
  const clock = new VirtualClock();
  const target = new HandTarget();
  const events = { dropped: 0, because: [] as (string | undefined)[], failed: [] as (string | undefined)[] };
  const writer = new LineWriter(
    clock,
    target,
    {
      dropped(lines, error) {
        events.dropped += lines;
        events.because.push((error as NodeJS.ErrnoException | undefined)?.code);
      },
      failed: (error) => events.failed.push(error.code),
    },
    limit,
  );
  return { clock, target, events, writer };
}

describe("LineWriter", () => {
  it("writes lines in order, and those that wait together", () => {
    const { clock, target, writer, events } = setUp();
    for (const line of ["a", "b", "ü"]) writer.add(line);
    expect(writer.waiting).toBe(7);
    target.take();
    expect(target.taken).toBe("a\n");
    clock.advance(100);
    target.take();
    expect(target.taken).toBe("a\nb\nü\n");
    expect([writer.waiting, target.isAsked, events.dropped]).toEqual([0, false, 0]);
    clock.advance(100);
    writer.add("later");
    target.take(3);
    target.take();
    expect([target.taken, target.starts]).toEqual(["a\nb\nü\nlater\n", [true, true, true, false]]);
  });

  it("gathers lines for 100 ms after a write, and writes the first line after a pause at once", () => {
    const { clock, target, writer } = setUp();
    writer.add("a");
    target.take();
    writer.add("b");
    clock.advance(99);
    writer.add("c");
    expect(target.isAsked).toBe(false);
    clock.advance(1);
    target.take();
    expect([target.taken, writer.waiting, clock.pending]).toEqual(["a\nb\nc\n", 0, 0]);
    clock.advance(100);
    writer.add("d");
    target.take();
    expect(target.taken).toBe("a\nb\nc\nd\n");
  });

  it("gathers no longer once it closes", async () => {
    const { target, writer, events } = setUp();
    writer.add("a");
    target.take();
    writer.add("b");
    expect(target.isAsked).toBe(false);
    const closed = writer.close(1000);
    target.take();
    await closed;
    expect([target.taken, target.closed, events.dropped]).toEqual(["a\nb\n", true, 0]);
  });

  it("drops and counts what a target that takes nothing leaves no room for, by default from 4 MiB on", () => {
    const { clock, target, writer, events } = setUp();
    const line = "x".repeat(1023);
    for (let i = 0; i < 5000; i++) writer.add(line);
    expect([writer.waiting, events.dropped]).toEqual([4 * 1024 * 1024, 5000 - 4096]);
    expect(events.because[0]).toBeUndefined();
    // A backlog goes out without a pause; its last piece may wait for more.
    while (target.isAsked) target.take();
    clock.advance(100);
    target.take();
    expect([target.taken.length, writer.waiting]).toEqual([4 * 1024 * 1024, 0]);
    clock.advance(100);
    writer.add("fits again");
    target.take();
    expect(target.taken.endsWith("x\nfits again\n")).toBe(true);
  });

  it("keeps its lines while a disk is full, and tries once a second", () => {
    const { clock, target, writer, events } = setUp(20);
    writer.add("first");
    target.fail("ENOSPC");
    writer.add("second");
    writer.add("does not fit");
    expect([events.failed, events.dropped, target.isAsked]).toEqual([["ENOSPC"], 1, false]);
    clock.advance(999);
    expect(target.isAsked).toBe(false);
    clock.advance(1);
    target.fail("ENOSPC");
    clock.advance(1000);
    target.take();
    clock.advance(100);
    target.take();
    expect([target.taken, events.failed, clock.pending]).toEqual(["first\nsecond\n", ["ENOSPC", "ENOSPC"], 0]);
  });

  it("gives up a line that failed in its middle, and goes on with the next one", () => {
    const { clock, target, writer, events } = setUp();
    writer.add("zero");
    for (const line of ["first", "second", "third"]) writer.add(line);
    target.take();
    clock.advance(100);
    target.take(8);
    target.fail("ENOSPC");
    expect([events.dropped, events.because, writer.waiting]).toEqual([1, ["ENOSPC"], 6]);
    clock.advance(1000);
    expect(target.starts.at(-1)).toBe(true);
    target.take();
    expect(target.taken).toBe("zero\nfirst\nsethird\n");
    clock.advance(100);
    writer.add("alone");
    target.take(2);
    target.fail("EIO");
    clock.advance(1000);
    expect([events.dropped, writer.waiting, target.isAsked, clock.pending]).toEqual([2, 0, false, 0]);
  });

  it.each(["EPIPE", "ECONNRESET", "ERR_STREAM_DESTROYED", "ERR_STREAM_WRITE_AFTER_END"])(
    "drops everything at once when nobody reads any more: %s",
    (code) => {
      const { clock, target, writer, events } = setUp();
      for (const line of ["a", "b", "c"]) writer.add(line);
      target.take();
      clock.advance(100);
      target.take(2);
      target.fail(code);
      expect([events.dropped, events.because, events.failed, writer.waiting]).toEqual([1, [code], [], 0]);
      // It does not ask for each line, and goes on when there is a reader again.
      writer.add("d");
      writer.add("e");
      expect(target.isAsked).toBe(false);
      clock.advance(1000);
      target.fail(code);
      expect([events.dropped, writer.waiting]).toEqual([3, 0]);
      clock.advance(1000);
      writer.add("f");
      target.take();
      expect(target.taken).toBe("a\nb\nf\n");
    },
  );

  it("waits a moment for a pipe without room, and reports nothing", () => {
    const { clock, target, writer, events } = setUp();
    writer.add("a");
    target.fail("EAGAIN");
    clock.advance(20);
    target.take();
    expect([target.taken, events.failed, events.dropped]).toEqual(["a\n", [], 0]);
  });

  it("writes at its end what it has, then closes the target", async () => {
    const { clock, target, writer, events } = setUp();
    writer.add("a");
    writer.add("b");
    const closed = writer.close(1000);
    target.take();
    target.take();
    await closed;
    expect([target.taken, target.closed, events.dropped, clock.pending]).toEqual(["a\nb\n", true, 0, 0]);
    writer.add("late");
    expect([events.dropped, target.isAsked]).toEqual([1, false]);
    await writer.close(1000);
  });

  it("ends in time although the target takes nothing", async () => {
    const { clock, target, writer, events } = setUp();
    writer.add("a");
    writer.add("b");
    const closed = writer.close(1000);
    clock.advance(1000);
    await closed;
    expect([events.dropped, target.closed]).toEqual([2, true]);
    // The write under way ends late: nothing follows it.
    target.take();
    expect(target.isAsked).toBe(false);
  });
});
