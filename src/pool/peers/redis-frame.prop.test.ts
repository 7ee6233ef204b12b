import fc from "fast-check";
import { expect, it } from "vitest";
import { framed, unframed } from "./redis-frame.ts";

const bytes = fc.uint8Array({ maxLength: 300 });

it("returns what was framed, also from the middle of other bytes", () => {
  fc.assert(
    fc.property(bytes, bytes, (message, before) => {
      const frame = framed(message);
      const wide = Buffer.concat([before, frame, before]);
      const inside = wide.subarray(before.length, before.length + frame.length);
      for (const one of [frame, inside]) expect([...(unframed(one) ?? [-1])]).toEqual([...message]);
    }),
  );
});

it("refuses a frame with one changed byte, and one that was cut", () => {
  fc.assert(
    fc.property(bytes, fc.nat(), fc.integer({ min: 1, max: 255 }), (message, at, change) => {
      const frame = framed(message);
      expect(unframed(frame.subarray(0, at % frame.length))).toBeUndefined();
      frame[at % frame.length]! ^= change;
      expect(unframed(frame)).toBeUndefined();
    }),
  );
});

it("refuses bytes of anybody else", () => {
  fc.assert(
    fc.property(bytes, (text) => {
      fc.pre(text[0] !== 1);
      expect(unframed(text)).toBeUndefined();
    }),
  );
});
