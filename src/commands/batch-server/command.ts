import type { Command } from "commander";
import type { WebhookSettings } from "../../async/batch-api/webhook.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { parseListenAddress } from "../../base/inference/listen-address.ts";
import {
  type BatchFlags,
  batchLimitsFrom,
  batchPaceFrom,
  batchPlaceOf,
  batchWebhookFrom,
  withBatchOptions,
} from "../common/batch-flags.ts";
import { command, durationOf, LOG_LEVELS, oneOf } from "../common/command.ts";
import { optionSettings } from "../common/flag-settings.ts";
import { type KeysOptions, keysSettingsFrom, withKeysOptions } from "../common/keys-options.ts";

interface ServerFlags extends BatchFlags, KeysOptions {
  readonly dir?: string;
  readonly batch?: string;
  readonly gateway?: string;
  readonly gatewayKeyFile?: string;
  readonly gatewayMetrics?: string;
  readonly listen: string;
  readonly admin: string;
  readonly requestTimeout: string;
  readonly drainTimeout: string;
  readonly debugOpen: boolean;
  readonly logLevel: string;
}

/** `sluice batch-server`: OpenAI's Batch API in a process of its own. */
export function batchServerCommand(): Command {
  const made = command("batch-server", "OpenAI's Batch API (files and batches) in front of a gateway, in one process")
    .option("--dir <folder>", "the folder for files, batches and their queue; --dir or --batch is required")
    .option(
      "--batch <place>",
      "the folder, or a Redis or Valkey that several servers share: redis://HOST:6379, or rediss:// with TLS",
    )
    .option("--gateway <url>", "the gateway that gets the requests, such as http://127.0.0.1:8000; required")
    .option(
      "--gateway-key-file <file>",
      "file with the key for the gateway; default: the variable SLUICE_GATEWAY_KEY. With a key for background requests (sluice keys add --background), lines use only the room that live requests leave",
    )
    .option(
      "--gateway-metrics <url>",
      "metrics page of the gateway or picker: requests wait while its model servers are busy; absent = no gate. Needed where --gateway-key-file has no key for background requests; there, give few --batch-workers to protect live requests",
    )
    .option("--listen <address>", "address of the API", "127.0.0.1:8100")
    .option("--admin <address>", "address of the page, /metrics and /debug/batches", "127.0.0.1:19003")
    .option("--request-timeout <duration>", "longest time of one attempt of a request", "10m")
    .option("--drain-timeout <duration>", "time after SIGTERM in which running requests may end", "20s")
    .option("--debug-open", "let /debug answer every client, not only loopback", false)
    .option("--log-level <level>", `lowest level of the log lines on stderr: ${LOG_LEVELS.join(", ")}`, "info");
  return withKeysOptions(withBatchOptions(made, 64)).action(async (flags: ServerFlags, self: Command) => {
    const logLevel = oneOf(LOG_LEVELS, flags.logLevel, "--log-level");
    const place = flags.batch ?? flags.dir;
    if (place === undefined) throw new SluiceError("FLAG_MISSING", "give --dir FOLDER, the place of the batches");
    if (flags.batch !== undefined && flags.dir !== undefined)
      throw new SluiceError("FLAG_CONFLICT", "--dir and --batch both name the place of the batches; give one of them");
    if (flags.gateway === undefined)
      throw new SluiceError("FLAG_MISSING", "give --gateway URL, such as --gateway http://127.0.0.1:8000");
    const { readGatewayKey } = await import("../../async/dispatch/config/gateway-key.ts");
    const { runBatchServer } = await import("./start.ts");
    process.exitCode = await runBatchServer({
      place: batchPlaceOf(flags, place, flags.batch === undefined ? "--dir" : "--batch", process.env),
      gateway: httpUrl(flags.gateway, "--gateway"),
      gatewayKey: await readGatewayKey({
        ...{ path: flags.gatewayKeyFile, flag: "--gateway-key-file", given: process.env["SLUICE_GATEWAY_KEY"] },
      }),
      metrics: flags.gatewayMetrics === undefined ? undefined : httpUrl(flags.gatewayMetrics, "--gateway-metrics"),
      listen: parseListenAddress(flags.listen, "--listen"),
      admin: parseListenAddress(flags.admin, "--admin"),
      requestTimeout: durationOf(flags.requestTimeout, "--request-timeout", 1),
      drainTimeout: durationOf(flags.drainTimeout, "--drain-timeout", 0),
      debugOpen: flags.debugOpen,
      keys: await keysSettingsFrom(flags),
      limits: batchLimitsFrom(flags),
      ...batchPaceFrom(flags),
      webhook: await webhookFrom(flags),
      logLevel,
      settings: optionSettings(self),
    });
  });
}

/** @throws SluiceError FLAG_VALUE, FLAG_MISSING, FLAG_CONFLICT, or the error of an unreadable file */
async function webhookFrom(flags: ServerFlags): Promise<WebhookSettings | undefined> {
  const [url, path] = [batchWebhookFrom(flags), flags.batchWebhookSecretFile];
  if (url === undefined) {
    if (path === undefined) return undefined;
    throw new SluiceError("FLAG_CONFLICT", "--batch-webhook-secret-file has no effect without --batch-webhook");
  }
  const { readWebhookSecrets } = await import("../../async/batch-api/webhook-secret.ts");
  const given = process.env["SLUICE_BATCH_WEBHOOK_SECRET"];
  return { url, secrets: await readWebhookSecrets({ path, flag: "--batch-webhook-secret-file", given }) };
}

/** @throws SluiceError FLAG_VALUE */
function httpUrl(text: string, flag: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return text;
  throw new SluiceError(
    "FLAG_VALUE",
    `${flag} is "${text.slice(0, 100)}"; give an address such as http://127.0.0.1:8000`,
  );
}
