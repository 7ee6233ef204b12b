import type { Command } from "commander";
import { parseDuration } from "../../base/document/duration.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { collect, command } from "../common/command.ts";

interface CheckFlags {
  readonly metricsPath: string;
  readonly engine?: string;
  readonly model?: string;
  readonly lora?: string;
  readonly header: readonly string[];
  readonly timeout: string;
  readonly skipGeneration: boolean;
  readonly json: boolean;
  readonly totalQueuedRequestsMetric?: string;
  readonly totalRunningRequestsMetric?: string;
  readonly kvCacheUsagePercentageMetric?: string;
  readonly loraInfoMetric?: string;
  readonly cacheInfoMetric?: string;
}

/** Milliseconds. */
const MAX_TIMEOUT = 10 * 60_000;

/** `sluice check-server`: checks a live server against the model server protocol. */
export function checkServerCommand(): Command {
  return command("check-server", "check a live model server against the model server protocol, one verdict per line")
    .argument("[url]", "required: the server, for example http://10.0.0.7:8000")
    .option("--model <name>", "the model of the requests; default: the first model of /v1/models")
    .option("--lora <name>", "the LoRA adapter that the check uses; default: the first adapter of /v1/models")
    .option("--metrics-path <path>", "path of the metrics page", "/metrics")
    .option(
      "--engine <name>",
      "the engine of the server, which decides the metric names (default: the engine with the most metrics on the page)",
    )
    .option("--total-queued-requests-metric <spec>", "name of the metric of queued requests, NAME or NAME{label=value}")
    .option("--total-running-requests-metric <spec>", "name of the metric of running requests")
    .option("--kv-cache-usage-percentage-metric <spec>", "name of the metric of KV-cache utilisation")
    .option("--lora-info-metric <spec>", "name of the metric of LoRA adapters")
    .option("--cache-info-metric <spec>", "name of the metric with block_size and num_gpu_blocks")
    .option("--header <name: value>", "header of every request, never shown; repeatable", collect, [])
    .option("--timeout <duration>", "longest time of each request", "30s")
    .option("--skip-generation", "send no request that runs the model", false)
    .option("--json", "print one JSON document", false)
    .action(async (url: string | undefined, flags: CheckFlags) => {
      if (url === undefined)
        throw new SluiceError("FLAG_MISSING", "give the URL of the model server, for example http://10.0.0.7:8000");
      // Loaded on use: `sluice sim` needs none of it.
      const { runCheckServer } = await import("./start.ts");
      process.exitCode = await runCheckServer({
        url,
        metricsPath: flags.metricsPath,
        engine: flags.engine,
        metricNames: {
          queued: flags.totalQueuedRequestsMetric,
          running: flags.totalRunningRequestsMetric,
          kvUsage: flags.kvCacheUsagePercentageMetric,
          lora: flags.loraInfoMetric,
          cacheInfo: flags.cacheInfoMetric,
        },
        model: flags.model,
        lora: flags.lora,
        headers: flags.header,
        timeout: timeoutOf(flags.timeout),
        skipGeneration: flags.skipGeneration,
        json: flags.json,
      });
    });
}

/** @throws SluiceError FLAG_VALUE */
function timeoutOf(text: string): number {
  let timeout = Number.NaN;
  try {
    timeout = parseDuration(text);
  } catch {
    // The error below names the legal range.
  }
  if (timeout >= 1 && timeout <= MAX_TIMEOUT) return timeout;
  throw new SluiceError("FLAG_VALUE", `--timeout is "${text}"; give a duration from 1ms to 10m, for example 30s`);
}
