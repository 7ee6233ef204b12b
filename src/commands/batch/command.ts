import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";
import { command, wholeNumber } from "../common/command.ts";
import type { BatchSource } from "./source.ts";

/** Where the batches are. */
interface SourceFlags {
  readonly url?: string;
  readonly keyFile?: string;
  readonly dir?: string;
}

/** Adds the parts for batches of the Batch API to `sluice batch`. Its own flags have no meaning for them. */
export function withApiBatches(batch: Command): Command {
  for (const make of [listCommand, showCommand, cancelCommand]) batch.addCommand(make());
  return batch.enablePositionalOptions().hook("preSubcommand", (self, part) => {
    const given = self.options.find((option) => self.getOptionValueSource(option.attributeName()) === "cli");
    if (given === undefined) return;
    throw new SluiceError("FLAG_CONFLICT", `${given.long} has no effect with sluice batch ${part.name()}`);
  });
}

function listCommand(): Command {
  return part("ls", "list the batches of the Batch API with progress, rate, tokens and gate")
    .alias("list")
    .option("-n <count>", "number of batches, up to 100", "20")
    .option("--json", "print one JSON document", false)
    .action(async (flags: SourceFlags & { readonly n: string; readonly json: boolean }) => {
      const limit = wholeNumber(flags.n, "-n", 1, 100);
      const { listBatches } = await import("./run.ts");
      await withSource(flags, (source) => listBatches(source, limit, flags.json));
    });
}

function showCommand(): Command {
  return part("show", "show one batch of the Batch API: progress, rate, ETA, gate, tokens, files and problems")
    .argument("<id>", "the id of the batch, batch_...")
    .option("--follow", "show the progress until the batch ends; exit status 1 if not every line succeeded", false)
    .option("--json", "print one JSON document", false)
    .action(async (id: string, flags: SourceFlags & { readonly follow: boolean; readonly json: boolean }) => {
      if (flags.follow && flags.json)
        throw new SluiceError(
          "FLAG_CONFLICT",
          "give --follow or --json: --follow shows the progress, --json prints the batch once",
        );
      const { followBatch, showBatch } = await import("./run.ts");
      await withSource(flags, async (source) => {
        if (flags.follow) process.exitCode = await followBatch(source, id);
        else await showBatch(source, id, flags.json);
      });
    });
}

function cancelCommand(): Command {
  return part("cancel", "cancel batches of the Batch API; running requests may finish")
    .argument("<ids...>", "ids of batches, batch_...")
    .action(async (ids: string[], flags: SourceFlags) => {
      const { cancelBatches } = await import("./run.ts");
      await withSource(flags, (source) => cancelBatches(source, ids));
    });
}

function part(name: string, description: string): Command {
  return command(name, description, "sluice batch")
    .option("--url <url>", "server of the Batch API, such as http://127.0.0.1:8000; shows the batches of one caller")
    .option("--key-file <file>", "file with the key of the caller; default: the variable SLUICE_GATEWAY_KEY")
    .option(
      "--dir <folder>",
      "instead of --url: the folder of --batch on this machine; shows the batches of all callers",
    );
}

/** @throws SluiceError FLAG_MISSING, FLAG_CONFLICT, FLAG_VALUE, BATCH_STORE */
async function withSource<T>(flags: SourceFlags, work: (source: BatchSource) => Promise<T>): Promise<T> {
  const source = await sourceOf(flags);
  try {
    return await work(source);
  } finally {
    source.close();
  }
}

async function sourceOf({ url, dir, keyFile }: SourceFlags): Promise<BatchSource> {
  const { realClock } = await import("../../base/clock/real.ts");
  if (url === undefined && dir === undefined)
    throw new SluiceError(
      "FLAG_MISSING",
      "give --url URL for a server of the Batch API, or --dir FOLDER for its folder",
    );
  if (url !== undefined && dir !== undefined)
    throw new SluiceError("FLAG_CONFLICT", "give either --url or --dir: they name different places");
  if (dir !== undefined) {
    if (keyFile !== undefined)
      throw new SluiceError("FLAG_CONFLICT", "--key-file works only with --url: a folder needs no key");
    const { schemeOf } = await import("../../async/batch-api/place-check.ts");
    const scheme = schemeOf(dir);
    if (scheme !== undefined)
      throw new SluiceError(
        "FLAG_VALUE",
        `--dir is ${scheme}://...: it takes a folder; give --url with the address of a gateway or batch server that serves these batches`,
      );
    const { FolderSource } = await import("./folder-source.ts");
    return new FolderSource(dir, realClock);
  }
  const { readGatewayKey } = await import("../../async/dispatch/config/gateway-key.ts");
  const { ApiSource } = await import("./api-source.ts");
  const given = process.env["SLUICE_GATEWAY_KEY"];
  const key = await readGatewayKey({ path: keyFile, flag: "--key-file", given });
  return new ApiSource(serverUrl(url!), key, realClock);
}

/** @throws SluiceError FLAG_VALUE */
function serverUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const usual = url?.protocol === "http:" || url?.protocol === "https:";
  if (url !== undefined && usual && url.username === "" && url.search === "" && url.hash === "") return url.href;
  const shown = text.includes("@") ? "a hidden value with @" : JSON.stringify(text.slice(0, 200));
  throw new SluiceError("FLAG_VALUE", `--url is ${shown}; give an address such as http://127.0.0.1:8000`);
}
