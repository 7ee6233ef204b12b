import type { Clock } from "../../base/clock/clock.ts";
import { parseDuration } from "../../base/document/duration.ts";
import { readDocument } from "../../base/document/read.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { type KeyEntry, keysIn, MAX_KEYS_BYTES, timeIn } from "../../wires/access/key-entry.ts";
import { type Edited, KeysEdit, timeText } from "../../wires/access/keys-edit.ts";
import { changeFile } from "./locked-file.ts";

/** Where a command reads the time and writes its text. */
export interface KeysWorld {
  readonly clock: Clock;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

export interface AddFlags {
  readonly file: string;
  readonly name?: string;
  readonly models?: string;
  readonly objective?: string;
  readonly priority?: string;
  readonly fairnessId?: string;
  readonly choosesFlow: boolean;
  readonly background: boolean;
  readonly expires?: string;
}

const DAY = 24 * 3_600_000;

/** `sluice keys add`. The secret is alone on standard output, so that a script can read it. */
export async function addKey(flags: AddFlags, world: KeysWorld): Promise<void> {
  const { file, name, models, objective, priority, fairnessId, choosesFlow, background, expires } = flags;
  if (name === undefined)
    throw new SluiceError("FLAG_MISSING", "give --name NAME, the name of the caller that gets the key");
  if (objective !== undefined && priority !== undefined)
    throw new SluiceError("FLAG_CONFLICT", "give --objective or --priority, not both");
  const now = world.clock.wall();
  const fields = {
    ...{ name, objective, fairnessId, choosesFlow, background },
    models: models === undefined ? undefined : namesIn(models),
    priority: priority === undefined ? undefined : priorityOf(priority),
    expires: expires === undefined ? undefined : endOf(expires, now),
  };
  const { entry, key } = await changed(file, world, (edit) => edit.add(fields, now));
  world.out(`${key}\n`);
  world.err(`sluice: ${file} now has the key ${entry.name} (id ${entry.id}); its secret is only on standard output\n`);
}

/** `sluice keys list`. */
export async function listKeys({ file, json }: { file: string; json: boolean }, world: KeysWorld): Promise<void> {
  const keys = keysIn(await readDocument(file, { maxBytes: MAX_KEYS_BYTES }));
  const now = world.clock.wall();
  if (json) {
    world.out(
      `${JSON.stringify(
        keys.map((entry) => publicOf(entry, now)),
        null,
        2,
      )}\n`,
    );
    return;
  }
  const rows = [
    ["NAME", "ID", "STATE", "EXPIRES", "CREATED", "MODELS", "FLOW"],
    ...keys.map((key) => cellsOf(key, now)),
  ];
  const widths = rows[0]!.map((_, at) => Math.max(...rows.map((cells) => cells[at]!.length)));
  for (const cells of rows)
    world.out(
      `${cells
        .map((cell, at) => cell.padEnd(widths[at]!))
        .join("  ")
        .trimEnd()}\n`,
    );
}

/** `sluice keys revoke`. */
export async function revokeKey(
  key: string,
  { file, remove }: { file: string; remove: boolean },
  world: KeysWorld,
): Promise<void> {
  const now = world.clock.wall();
  const { entry } = await changed(file, world, (edit) => (remove ? edit.remove(key) : edit.revoke(key, now)));
  const what = remove ? "is no longer in" : "is revoked in";
  world.err(`sluice: the key ${entry.name} (id ${entry.id}) ${what} ${file}\n`);
}

/** `sluice keys rotate`. */
export async function rotateKey(
  key: string,
  { file, grace }: { file: string; grace: string },
  world: KeysWorld,
): Promise<void> {
  const now = world.clock.wall();
  const ms = lengthOf(grace, "--grace");
  const rotated = await changed(file, world, (edit) => edit.rotate(key, ms, now));
  world.out(`${rotated.key}\n`);
  const { name, previous } = rotated.entry;
  const old =
    previous === undefined
      ? "the gateway refuses the old secret"
      : `the gateway accepts the old secret until ${timeText(previous.until)}`;
  world.err(`sluice: the key ${name} has a new secret, and ${old}; the new secret is only on standard output\n`);
}

function changed<T extends Edited>(file: string, world: KeysWorld, change: (edit: KeysEdit) => T): Promise<T> {
  return changeFile(file, world.clock, (text) => change(new KeysEdit(text, file)));
}

type KeyState = "active" | "expired" | "revoked";

function stateOf({ revoked, expires }: KeyEntry, now: number): KeyState {
  if (revoked !== undefined) return "revoked";
  return expires !== undefined && now >= expires ? "expired" : "active";
}

/** The key without its hash, which nobody needs to see. */
function publicOf(entry: KeyEntry, now: number): object {
  const { hash: _, previous, createdAt, expires, revoked, ...rest } = entry;
  const time = (ms: number | undefined): string | undefined => (ms === undefined ? undefined : timeText(ms));
  return {
    ...rest,
    state: stateOf(entry, now),
    createdAt: time(createdAt),
    expires: time(expires),
    revoked: time(revoked),
    oldSecretUntil: time(previous?.until),
  };
}

function cellsOf(entry: KeyEntry, now: number): readonly string[] {
  const { name, id, expires, createdAt, models, objective, priority, fairnessId, choosesFlow, background } = entry;
  const flow = [
    objective === undefined ? "" : `objective ${objective}`,
    priority === undefined ? "" : `priority ${priority}`,
    fairnessId === undefined ? "" : `fairness ${fairnessId}`,
    choosesFlow ? "client chooses" : "",
    background ? "background" : "",
  ].filter(Boolean);
  const time = (ms: number | undefined): string => (ms === undefined ? "-" : timeText(ms));
  return [
    name,
    id,
    stateOf(entry, now),
    expires === undefined ? "never" : timeText(expires),
    time(createdAt),
    models?.join(",") ?? "all",
    flow.join(", ") || "-",
  ];
}

function namesIn(list: string): readonly string[] {
  const names = list.split(",").map((name) => name.trim());
  if (names.every((name) => name !== "")) return names;
  throw new SluiceError(
    "FLAG_VALUE",
    `--models is "${list}"; give names separated by commas, such as llama-8b,qwen-7b`,
  );
}

function priorityOf(text: string): number {
  const value = Number(text);
  if (/^\s*-?\d+\s*$/.test(text) && value === (value | 0)) return value;
  throw new SluiceError("FLAG_VALUE", `--priority is "${text}"; give a whole number of 32 bits, such as 1 or -1`);
}

/** The end of a key, Unix milliseconds: a time, or a length of time from now. */
function endOf(text: string, now: number): number {
  const end = timeIn(text) ?? now + lengthOf(text, "--expires", "30d, 12h or a time such as 2027-01-31T12:00:00Z");
  if (end > now) return end;
  throw new SluiceError("FLAG_VALUE", `--expires is "${text}", which is in the past; give a time in the future`);
}

/** A length of time in milliseconds, at least 0, at most ten years. Days are written with `d`, which durations elsewhere lack. */
function lengthOf(text: string, flag: string, examples = "a duration such as 0, 90m, 24h or 7d"): number {
  const days = /^\d+(?=d$)/.exec(text);
  let ms = Number.NaN;
  try {
    ms = days === null ? parseDuration(text) : Number(days[0]) * DAY;
  } catch {
    // The error below reports it.
  }
  if (ms >= 0 && ms <= 3650 * DAY) return ms;
  throw new SluiceError("FLAG_VALUE", `${flag} is "${text}"; give ${examples}, at most 3650d`);
}
