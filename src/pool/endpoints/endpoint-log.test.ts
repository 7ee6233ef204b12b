import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { LogFields, Logger } from "../../base/telemetry/logger.ts";
import { EndpointLog } from "./endpoint-log.ts";
import { EndpointRegistry } from "./registry.ts";

function setUp(count: number) {
  const clock = new VirtualClock();
  const registry = new EndpointRegistry({ clock, random: new SeededRandom(1) });
  const lines: { level: string; fields: LogFields; text: string }[] = [];
  const at =
    (level: string) =>
    (fields: LogFields, text: string): void =>
      void lines.push({ level, fields, text });
  const log: Logger = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") } as Logger;
  const endpointLog = new EndpointLog(clock, registry, log);
  const add = (i: number) =>
    registry.upsert({
      namespace: "default",
      name: `e${i}`,
      address: `10.0.${i >> 8}.${i & 255}`,
      port: 8000,
      rank: 0,
      labels: {},
    })!;
  const endpoints = Array.from({ length: count }, (_, i) => add(i));
  const said = () =>
    lines.splice(0).map(({ level, fields, text }) => `${level} ${fields["endpoint"] ?? "pool"} ${text}`);
  const down = (i: number) => registry.attemptFailed(endpoints[i]!, "connect", "refused");
  const up = (i: number) => registry.attemptSucceeded(endpoints[i]!);
  return { clock, registry, lines, endpointLog, endpoints, add, said, down, up };
}

describe("EndpointLog", () => {
  it("warns of an endpoint that goes down, calls the last one of the pool an error, and tells who is back", () => {
    const { said, down, up, lines, registry, endpoints, clock } = setUp(2);
    down(0);
    expect(lines[0]).toEqual({
      level: "warn",
      text: "endpoint is down",
      fields: { endpoint: "default/e0", from: "up", to: "down", cause: "request could not connect: refused" },
    });
    expect(said()).toEqual(["warn default/e0 endpoint is down"]);
    down(1);
    expect(lines[1]).toEqual({
      level: "error",
      text: "every endpoint of the pool is down",
      fields: { endpoints: 2, cause: "request could not connect: refused", since: "1970-01-01T00:00:00.000Z" },
    });
    expect(said()).toEqual(["warn default/e1 endpoint is down", "error pool every endpoint of the pool is down"]);
    clock.advance(7_300);
    up(0);
    expect(lines[1]!.fields).toEqual({ endpoints: 2, down: 1, lastedMs: 7_300 });
    expect(said()).toEqual(["info default/e0 endpoint is up", "info pool an endpoint of the pool is back"]);
    registry.states.unreadable(endpoints[0]!, "HTTP 500");
    expect(said()).toEqual(["info default/e0 endpoint is blind: its metrics cannot be read"]);
    // A blind one serves: the pool is not lost with it.
    up(1);
    expect(said()).toEqual(["info default/e1 endpoint is up"]);
  });

  it("sees the outage that begins when the last living endpoint leaves, and the end that a new one brings", () => {
    const { said, down, registry, endpoints, add } = setUp(2);
    down(0);
    said();
    registry.remove(endpoints[1]!.id);
    expect(said()).toEqual(["error pool every endpoint of the pool is down"]);
    add(2);
    expect(said()).toEqual(["info pool an endpoint of the pool is back"]);
    registry.remove("default/e2");
    expect(said()).toEqual(["error pool every endpoint of the pool is down"]);
    registry.remove(endpoints[0]!.id);
    expect(said()).toEqual([]);
    add(3);
    expect(said()).toEqual([]);
  });

  it("bounds what a flapping endpoint writes, and its last word is true", () => {
    const { said, down, up, clock, lines } = setUp(2);
    for (let i = 0; i < 1000; i++) {
      down(0);
      up(0);
    }
    down(0);
    expect(said()).toHaveLength(4);
    clock.advance(10_000);
    expect(lines).toMatchObject([{ level: "warn", fields: { to: "down", changes: 1997 } }]);
    expect(said()).toEqual(["warn default/e0 endpoint is down"]);
    // A quiet window ends it: the next change is told at once.
    clock.advance(30_000);
    expect([said(), clock.pending]).toEqual([[], 0]);
    up(0);
    expect(said()).toEqual(["info default/e0 endpoint is up"]);
  });

  it("bounds what an outage of many writes, never leaves the outage out, and sums up the rest", () => {
    const { said, clock, lines, endpoints, registry } = setUp(300);
    for (const endpoint of endpoints) registry.attemptFailed(endpoint, "reset", "cut");
    expect(said().slice(98)).toEqual([
      "warn default/e98 endpoint is down",
      "warn default/e99 endpoint is down",
      "error pool every endpoint of the pool is down",
    ]);
    clock.advance(10_000);
    expect(lines).toHaveLength(101);
    expect(lines.at(-1)).toEqual({
      level: "warn",
      text: "more endpoints changed their states",
      fields: { endpoints: 100, down: 100 },
    });
    said();
    clock.advance(60_000);
    expect([said(), clock.pending]).toEqual([[], 0]);
  });

  it("tells at the end of the window what has become of a pool that flaps", () => {
    const { said, down, up, clock, lines } = setUp(1);
    for (let i = 0; i < 10; i++) {
      down(0);
      up(0);
    }
    clock.advance(2_000);
    down(0);
    expect(said().filter((line) => line.includes("pool"))).toHaveLength(4);
    clock.advance(10_000);
    // The line comes late. It tells the cause and the beginning of the outage all the same.
    expect(lines[1]!.fields).toEqual({
      endpoints: 1,
      cause: "request could not connect: refused",
      since: "1970-01-01T00:00:02.000Z",
    });
    expect(said()).toEqual(["warn default/e0 endpoint is down", "error pool every endpoint of the pool is down"]);
  });

  it("falls silent when it is closed", () => {
    const { said, down, endpointLog, clock } = setUp(1);
    endpointLog.close();
    down(0);
    clock.advance(20_000);
    expect(said()).toEqual([]);
  });
});
