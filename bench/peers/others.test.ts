import { expect, it } from "vitest";
import { busyMs } from "./others.ts";

it("counts what programs used and what the host took, without idle time and interrupts", () => {
  const text = "cpu  100 20 3 4000 50000 600000 7000000 8 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 5\n";
  expect(busyMs(text)).toBe(1310);
});
