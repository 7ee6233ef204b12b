import type { Command } from "commander";
import { realClock } from "../../base/clock/real.ts";
import { command, STANDARD } from "../common/command.ts";
import type { AddFlags, KeysWorld } from "./keys-tools.ts";

const FILE = ["--file <file>", "the keys file", "keys.yaml"] as const;

/** `sluice keys`: makes and changes the keys file of `sluice gateway --keys`. */
export function keysCommand(world: KeysWorld = { clock: realClock, ...STANDARD }): Command {
  const of = "sluice keys";
  const load = () => import("./keys-tools.ts");
  const add = command("add", "create a key, and print the key once on standard output", of)
    .option(...FILE)
    .option("--name <name>", "required: name of the caller that gets the key, as shown in logs and metrics")
    .option("--models <list>", "models that the key may use, comma-separated; absent = every model")
    .option("--objective <name>", "the InferenceObjective of the key's requests")
    .option("--priority <number>", "the priority of the key's requests, instead of an objective; below 0 = shed first")
    .option("--fairness-id <id>", "the fairness ID of the key's requests; absent = the name of the key")
    .option("--chooses-flow", "let the client choose objective and fairness ID by headers", false)
    .option(
      "--background",
      "the key's requests use only the room that other requests leave, as the lines of batches do: for sluice batch-server",
      false,
    )
    .option("--expires <when>", "expiry: 30d, 12h or a time such as 2027-01-31T12:00:00Z; absent = never")
    .action(async (flags: AddFlags) => (await load()).addKey(flags, world));
  const list = command("list", "print the keys of the file, never a secret", of)
    .option(...FILE)
    .option("--json", "print one JSON array", false)
    .action(async (flags: { file: string; json: boolean }) => (await load()).listKeys(flags, world));
  const revoke = command("revoke", "revoke a key: the gateway refuses it at once", of)
    .argument("<key>", "name or id")
    .option(...FILE)
    .option("--remove", "also remove the key from the file, which frees its name", false)
    .action(async (key: string, flags: { file: string; remove: boolean }) =>
      (await load()).revokeKey(key, flags, world),
    );
  const rotate = command("rotate", "give a key a new secret, and print the secret once on standard output", of)
    .argument("<key>", "name or id")
    .option(...FILE)
    .option("--grace <duration>", "time for which the gateway still accepts the old secret, such as 0, 24h or 7d", "0")
    .action(async (key: string, flags: { file: string; grace: string }) => (await load()).rotateKey(key, flags, world));
  const made = command("keys", "create and change the keys of gateway clients");
  for (const one of [add, list, revoke, rotate]) made.addCommand(one);
  return made;
}
