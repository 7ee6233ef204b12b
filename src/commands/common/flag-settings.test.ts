import { expect, it } from "vitest";
import { flagSettings } from "./flag-settings.ts";
import type { FlagRow } from "./go-flags.ts";

const row = (name: string, more: Partial<FlagRow> = {}): FlagRow => ({
  ...{ name, type: "string", default: "", since: "ours", help: "" },
  ...more,
});

it("shows the value of each flag as JSON, except secrets: those by name, those of the table, and those inside a value", () => {
  const values = {
    "learn-bytes-per-token": true,
    "max-tokens": 7,
    "proxy-password": "hunter2",
    "empty-password": "",
    inline: "[hunter2]",
    url: "redis://me:hunter2@host",
    list: ["a"],
  };
  const table = Object.keys(values).map((name) => row(name, name === "inline" ? { secret: true } : {}));
  const shown = flagSettings(table, { values, explicit: new Set() }, {});
  expect(Object.fromEntries(shown.map(({ name, value }) => [name, value]))).toEqual({
    "--learn-bytes-per-token": "true",
    "--max-tokens": "7",
    "--proxy-password": '"REDACTED"',
    "--empty-password": '""',
    "--inline": '"REDACTED"',
    "--url": '"redis://REDACTED@host"',
    "--list": '["a"]',
  });
});

it("tells where a value comes from: the command line before a file, a file before the environment", () => {
  const table = ["d", "c", "b", "a"].map((name) => row(name, { env: "VARIABLE" }));
  const values = { a: "1", b: "1", c: "1", d: "1" };
  const inFile = (flag: string) => (flag === "a" || flag === "b" ? `file.yaml:1 ${flag}` : undefined);
  const env = { VARIABLE: "1" };
  const shown = flagSettings([...table, row("e")], { values, explicit: new Set(["a"]) }, env, inFile);
  expect(shown.map(({ source, place }) => [source, place])).toEqual([
    ["flag", "--a"],
    ["file", "file.yaml:1 b"],
    ["environment", "VARIABLE"],
    ["environment", "VARIABLE"],
    ["default", null],
  ]);
});
