import { writeFile } from "node:fs/promises";
import { realClock } from "../../base/clock/real.ts";
import { counted } from "../../base/document/words.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { parseListenAddress } from "../../base/inference/listen-address.ts";
import { askServers } from "../../lab/check/ask-servers.ts";
import type { Output } from "../common/command.ts";
import { foundText, nextText } from "./found-text.ts";
import { gatewayText, serverNames } from "./gateway-text.ts";
import { targets } from "./targets.ts";

/** The flags of `sluice init`. */
export interface InitSettings {
  readonly urls: readonly string[];
  readonly from: readonly string[];
  readonly out: string;
  readonly listen: string;
  readonly admin: string;
  /** Milliseconds for each question. */
  readonly timeout: number;
  readonly force: boolean;
}

/**
 * Asks the servers, writes the file, and prints what was found.
 * @returns the exit status: 0, or 1 when a server does not answer
 * @throws SluiceError FLAG_VALUE, FILE_EXISTS, FILE_NOT_WRITTEN
 */
export async function runInit(settings: InitSettings, output: Output): Promise<number> {
  const { out, listen, admin, timeout, force } = settings;
  parseListenAddress(listen, "--listen");
  parseListenAddress(admin, "--admin");
  const servers = await askServers(targets(settings.urls, settings.from), { timeout }, realClock);
  const names = serverNames(servers);
  await write(out, gatewayText(servers, { listen, admin }), force);
  for (const [i, server] of servers.entries()) output.out(`${foundText(server, names[i]!)}\n`);
  const silent = servers.filter(({ problem }) => problem !== undefined).length;
  const model = servers.find(({ models }) => models.length > 0)?.models[0];
  output.out(`wrote ${out}: ${counted(servers.length, "server")}\n\n${nextText(out, listen, model)}`);
  if (silent === 0) return 0;
  output.err(
    `warning: ${silent} of ${counted(servers.length, "server")} did not answer; start these servers, or remove them from ${out}\n`,
  );
  return 1;
}

/** @throws SluiceError FILE_EXISTS, FILE_NOT_WRITTEN */
async function write(file: string, text: string, force: boolean): Promise<void> {
  try {
    // `wx` leaves no time between the look and the write.
    await writeFile(file, text, { flag: force ? "w" : "wx" });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "EEXIST")
      throw new SluiceError(
        "FILE_EXISTS",
        `${file} already exists; name another file with --out, or replace the file with --force`,
      );
    throw new SluiceError("FILE_NOT_WRITTEN", `cannot write ${file}: ${messageOf(cause)}`, { cause });
  }
}
