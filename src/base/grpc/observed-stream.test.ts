import { describe, expect, it } from "vitest";
import { FakeGrpcStream } from "../../../test/support/fake-grpc-stream.ts";
import { VirtualClock } from "../clock/virtual.ts";
import { observeStreams } from "./observed-stream.ts";
import type { GrpcHandler } from "./transport.ts";

function observe(handler: GrpcHandler) {
  const clock = new VirtualClock();
  const seen: unknown[] = [];
  const observed = observeStreams(
    handler,
    { opened: () => seen.push("opened"), closed: (code, ms) => seen.push([code, ms]) },
    clock,
  );
  return { clock, seen, observed };
}

describe("observeStreams", () => {
  it.each([
    ["ended", 0, "OK"],
    ["ended", 8, "ResourceExhausted"],
    ["cancelled", 1, "Canceled"],
    ["cancelled", undefined, "Canceled"],
    ["ended", 99, "Unknown"],
  ] as const)(
    "reports a call that is %s with %s as %s, with its duration, and hands all events on",
    (cause, status, name) => {
      const events: unknown[] = [];
      const { clock, seen, observed } = observe(() => ({
        message: (bytes) => events.push(bytes.length),
        halfClosed: () => events.push("half-closed"),
        closed: (...what) => events.push(what[0]),
      }));
      const call = observed(new FakeGrpcStream());
      expect(seen).toEqual(["opened"]);
      call.message(Buffer.alloc(7));
      clock.advance(1500);
      call.halfClosed();
      call.closed(cause, status);
      expect(seen).toEqual(["opened", [name, 1500]]);
      expect(events).toEqual([7, "half-closed", cause]);
    },
  );

  it("reports a handler that throws as Internal, and throws on", () => {
    const { seen, observed } = observe(() => {
      throw new Error("broken");
    });
    expect(() => observed(new FakeGrpcStream())).toThrow("broken");
    expect(seen).toEqual(["opened", ["Internal", 0]]);
  });
});
