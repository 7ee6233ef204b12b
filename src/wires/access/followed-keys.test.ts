import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { poll } from "../../../test/support/poll.ts";
import { realClock } from "../../base/clock/real.ts";
import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { FollowedKeys } from "./followed-keys.ts";
import { KeysEdit } from "./keys-edit.ts";

let folder = "";
let file = "";
let lines: string[] = [];
let keys: FollowedKeys;
let changes = 0;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-keys-"));
  file = join(folder, "keys.yaml");
  lines = [];
  changes = 0;
  const say = (level: string) => (fields: object, message: string) =>
    void lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
  const log: Logger = { ...silentLogger, info: say("info"), warn: say("warn"), error: say("error") };
  keys = new FollowedKeys({ file, clock: realClock, log, changed: () => void changes++ });
});
afterEach(async () => {
  keys.close();
  await rm(folder, { recursive: true, force: true });
});

/** Replaces the file as `sluice keys` does. */
async function put(text: string, mode = 0o600): Promise<void> {
  await writeFile(`${file}.new`, text, { mode });
  await rename(`${file}.new`, file);
}

const told = (part: string) => lines.filter((line) => line.includes(part));

it("a missing or wrong file is an error of the start", async () => {
  await expect(keys.start()).rejects.toThrow(/keys\.yaml does not exist/);
  await put("keys: [{ id: 1 }]");
  await expect(keys.start()).rejects.toThrow(/keys\.yaml:1:\d+: keys\[0\]\.id/);
});

it("changes are in force soon; a broken file and a removed one change nothing, each with an error line", async () => {
  const first = new KeysEdit("", file).add({ name: "a" }, 0);
  await put(first.text);
  await keys.start();
  expect(keys.table.find(first.key, 0)).toMatchObject({ name: "a" });
  const second = new KeysEdit(first.text, file).add({ name: "b", priority: 7 }, 0);
  await put(second.text);
  await poll("the second key", () => typeof keys.table.find(second.key, 0) === "object");
  expect([changes, [...keys.table.priorities]]).toEqual([2, [7]]);
  await put(second.text.replace("name: b", "nam: b"));
  await poll(
    "the error",
    () => told("error keys file: the gateway cannot use the changed file and keeps the old keys").length === 1,
  );
  expect(lines.at(-1)).toMatch(/unknown key `nam`; did you mean `name`/);
  await rm(file);
  await poll("the second error", () => told("does not exist").length === 1);
  expect(keys.table.find(second.key, 0)).toMatchObject({ name: "b" });
  await put(first.text);
  await poll("the first file again", () => keys.table.find(second.key, 0) === "unknown");
  expect(lines.join()).not.toContain(first.key);
});

it("a file that every user can read gets a warning, and an empty one too", async () => {
  await put("keys: []", 0o644);
  await keys.start();
  expect(told("warn keys file: every user of this machine can read it; run chmod o-rwx")).toHaveLength(1);
  expect(told("warn keys file: the file lists no key")).toHaveLength(1);
});

it("a file of its owner and group gets no warning", async () => {
  await put(new KeysEdit("", file).add({ name: "a" }, 0).text, 0o640);
  await keys.start();
  expect(told("warn")).toEqual([]);
});
