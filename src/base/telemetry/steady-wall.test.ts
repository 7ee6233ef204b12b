import { expect, it } from "vitest";
import { VirtualClock } from "../clock/virtual.ts";
import { SteadyWall } from "./steady-wall.ts";

it("goes on when the wall clock falls, and follows it when it has jumped ahead by more than 2 s", () => {
  const clock = new VirtualClock();
  const steady = new SteadyWall(clock);
  const begin = steady.of(clock.now());
  expect([begin, steady.second()]).toEqual([clock.wall(), Math.floor(clock.wall() / 1000)]);
  clock.set(-5_000_000);
  steady.align();
  clock.advance(1000);
  expect(steady.of(clock.now())).toBe(begin + 1000);
  clock.set(5_000_000 + 1500);
  steady.align();
  expect(steady.of(clock.now())).toBe(begin + 1000);
  clock.set(3_600_000);
  steady.align();
  expect(steady.of(clock.now())).toBe(clock.wall());
});
