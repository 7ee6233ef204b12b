import { expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { type LogFields, type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { Outage } from "./outage.ts";

it("an outage is one line at its begin, and one at its end with its length", async () => {
  const lines: [string, LogFields, string][] = [];
  const to =
    (level: string) =>
    (fields: LogFields, message: string): void =>
      void lines.push([level, fields, message]);
  const log: Logger = { ...silentLogger, info: to("info"), warn: to("warn"), error: to("error") };
  const clock = new VirtualClock();
  const outage = new Outage({ clock, log }, "away", "back");
  outage.succeeded();
  expect(lines).toEqual([]);
  for (let look = 0; look < 7; look++) {
    outage.failed(new Error("refused"));
    await clock.advance(500);
  }
  expect(lines).toEqual([["warn", { error: "refused" }, "away"]]);
  outage.succeeded();
  outage.succeeded();
  expect(lines.splice(1)).toEqual([["info", { failures: 7, seconds: 4 }, "back"]]);
  outage.failed(new Error("again"));
  expect(lines).toHaveLength(2);
});
