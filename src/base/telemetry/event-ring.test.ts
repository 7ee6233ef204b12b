import { expect, it } from "vitest";
import { EventRing } from "./event-ring.ts";

it("numbers events from 1 and gives those after a number", () => {
  let wall = 1000;
  const ring = new EventRing<"up" | "down">(() => wall, 4);
  for (let i = 0; i < 3; i++) {
    ring.add("up", `e${i}`, "text");
    wall += 11_000;
  }
  expect(ring.after(1)).toEqual({
    events: [
      { number: 2, at: 12_000, kind: "up", subject: "e1", text: "text", times: 1 },
      { number: 3, at: 23_000, kind: "up", subject: "e2", text: "text", times: 1 },
    ],
    lost: 0,
  });
  // The others are kept, though a limit leaves them out.
  expect(ring.after(0, 1)).toMatchObject({ events: [{ number: 3 }], lost: 0 });
  expect(ring.after(3)).toEqual({ events: [], lost: 0 });
});

it("keeps a bounded number, and tells how many are lost", () => {
  let wall = 0;
  const ring = new EventRing<"up">(() => (wall += 11_000), 4);
  for (let i = 0; i < 20; i++) ring.add("up", "", String(i));
  const { events, lost } = ring.after(2);
  expect(events.map(({ number }) => number)).toEqual([17, 18, 19, 20]);
  expect(lost).toBe(14);
});

it("joins a storm of one kind, so that it does not push the others out", () => {
  const ring = new EventRing<"up" | "down">(() => 5, 512);
  ring.add("down", "rare", "the rare one");
  for (let i = 0; i < 1000; i++) ring.add("up", `e${i}`, `text ${i}`);
  const { events } = ring.after(0);
  expect(events).toHaveLength(65);
  expect(events[0]).toMatchObject({ kind: "down", subject: "rare" });
  expect(events.at(-1)).toMatchObject({ kind: "up", subject: "", text: "text 999", times: 937 });
  expect(ring.newest).toBe(65);
  expect(ring.revision).toBe(1001);
});

it("tells which events others have joined since a revision", () => {
  let wall = 5;
  const ring = new EventRing<"up" | "down">(() => wall, 512);
  for (let i = 0; i < 65; i++) ring.add("up", `e${i}`, `text ${i}`);
  ring.add("down", "d", "first");
  const before = ring.revision;
  expect(ring.joined(ring.newest, 0)).toEqual([]);
  ring.add("up", "e", "joined");
  ring.add("down", "d", "joined, too");
  expect(ring.joined(66, before)).toMatchObject([
    { number: 65, text: "joined", times: 2 },
    { number: 66, text: "joined, too", times: 2 },
  ]);
  expect(ring.joined(65, before)).toHaveLength(1);
  expect(ring.joined(66, before + 1)).toMatchObject([{ number: 66 }]);
  expect(ring.joined(66, ring.revision)).toEqual([]);
  // A storm in each window: only the last joint events are known, and those that are still kept.
  for (let window = 0; window < 100; window++) {
    wall += 10_000;
    for (let i = 0; i < 66; i++) ring.add("up", "", "storm");
  }
  expect(ring.joined(ring.newest, 0).length).toBeLessThanOrEqual(16);
});

it("shortens long texts", () => {
  const ring = new EventRing<"up">(() => 5);
  ring.add("up", "s".repeat(1000), "t".repeat(1000));
  const [event] = ring.after(0).events;
  expect([event!.subject.length, event!.text.length]).toEqual([512, 512]);
});
