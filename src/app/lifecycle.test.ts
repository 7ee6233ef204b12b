import { describe, expect, it } from "vitest";
import { VirtualClock } from "../clock/virtual.ts";
import { untilHardStop } from "./lifecycle.ts";

describe("untilHardStop", () => {
  it("waits for what ends, and 30 s for what does not", async () => {
    const clock = new VirtualClock();
    await untilHardStop(clock, Promise.resolve());
    let stopped = false;
    const never = untilHardStop(clock, new Promise(() => {})).then(() => {
      stopped = true;
    });
    await clock.advanceAsync(29_999);
    expect(stopped).toBe(false);
    await clock.advanceAsync(1);
    await never;
    expect(stopped).toBe(true);
  });
});
