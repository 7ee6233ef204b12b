import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";
import { RESOURCE_DEFAULTS } from "../../pool/resources/resource-settings.ts";
import { collect, command, STANDARD } from "../common/command.ts";
import { LEARN_HELP, withBodyOptions, withExplainOptions, withMemoryOption } from "../common/exchange-flags.ts";
import { withKeysOptions } from "../common/keys-options.ts";
import { withPeersOptions } from "../common/peers-flags.ts";
import { withGatewayBatchOptions } from "./batch-options.ts";
import { withConnectionOptions } from "./connection-options.ts";
import { type GatewayFlags, givenSettings } from "./given-flags.ts";
import { withLimitsOptions } from "./limits-options.ts";
import { withLogOptions } from "./log-options.ts";

/** `sluice gateway`: an OpenAI-compatible reverse proxy with prefix- and load-aware routing, in one process. */
export function gatewayCommand(): Command {
  const made = withConnectionOptions(
    command("gateway", "route HTTP requests to model servers, without Kubernetes and without Envoy")
      .option(
        "--config <file>",
        "a gateway.yaml with all settings, watched for changes; a flag on the command line overrides its key",
      )
      .option(
        "--endpoints <file>",
        "the model servers, as YAML or JSON; watched for changes; required without --config",
      ),
  )
    .option("--admin <address>", "address of /metrics, /debug and the page", "127.0.0.1:19001")
    .option(
      "--scaler <address>",
      "address of the external scaler, which reports the waiting requests to KEDA; absent = none",
    )
    .option("--config-file <file>", "an EndpointPickerConfig; default: the built-in profile with the name default")
    .option("--allow-experimental-plugins", "permit alpha plugins in the configuration", false)
    .option(
      "--profile <name>",
      "a built-in profile in place of --config-file: default, sticky-until-saturated, or legacy-v0.3 (the decision tree of v0.3)",
    )
    .option(
      "--max-retries <number>",
      "the most retries on other endpoints when an endpoint fails before its answer",
      "2",
    )
    .option("--retry-statuses <list>", "statuses that cause a retry, comma-separated", "503")
    .option(
      "--allow-path <path>",
      "dangerous: also pass requests to this administration path; with /* at the end, to all paths below it; repeatable",
      collect,
      [],
    )
    .option("--print-paths", "print which paths pass with these flags, and exit", false)
    .option("--objective <name=priority>", "an InferenceObjective; repeatable", collect, [])
    .option(
      "--resources <folder>",
      "the folder of manifests of InferencePool, InferenceModel and related objects; watched for changes",
    )
    .option("--pool-name <name>", "the name of the InferencePool; required if several exist")
    .option("--pool-namespace <namespace>", "namespace of the pool, and of manifests without a namespace")
    .option(
      "--model-matching <mode>",
      "whether a model name without an InferenceModel gets 404: enforce, off, or auto (once the pool has InferenceModels)",
      RESOURCE_DEFAULTS.modelMatching,
    )
    .option(
      "--standard-shed-at <saturation>",
      "without flow control: saturation from which requests for InferenceModels of Standard criticality get 429",
      RESOURCE_DEFAULTS.standardShedAt,
    )
    .option(
      "--legacy-criticality",
      "refuse requests of Standard criticality from saturation 1, like Sheddable requests, as in v0.3",
      false,
    )
    .option("--learn-bytes-per-token <true|false>", LEARN_HELP, "true")
    .option("--debug-open", "let /debug and the page answer every client, not only loopback", false)
    .option("--prometheus <url>", "Prometheus from which the page reads time spans above 15 minutes")
    .option(
      "--stream-rest <duration>",
      "with 16 or more event streams, Sluice may send chunks together that follow within this time; 0s = never",
      "10ms",
    )
    .option(
      "--drain-timeout <duration>",
      "time after SIGTERM in which the gateway is not ready but still accepts requests; then running requests have 30 s",
      "0s",
    );
  const shared = withPeersOptions(withLimitsOptions(withKeysOptions(made)));
  const more = withExplainOptions(withBodyOptions(withMemoryOption(shared)));
  return withLogOptions(withGatewayBatchOptions(more)).action(async (flags: GatewayFlags, self: Command) => {
    const given = await givenSettings(flags, (flag) => self.getOptionValueSource(flag) === "cli");
    // Loaded on use: `sluice sim` needs none of it.
    const { readSettings } = await import("../../wires/gateway/read-settings.ts");
    const { fileSignature } = await import("../../base/document/folder-watch.ts");
    const { cgroupMemory } = await import("../../base/process/memory-plan.ts");
    const read = () => readSettings(flags.config, given, process.env, cgroupMemory());
    const seen = flags.config === undefined ? "" : await fileSignature(flags.config);
    const first = await read();
    const { settings, options, warnings } = first;
    if (flags.printPaths) {
      const { pathsText } = await import("../../wires/gateway/paths-text.ts");
      STANDARD.out(await pathsText(options, settings.paths.allow));
      return;
    }
    // Commander would check a required option before it reports mistyped options. So this command checks it.
    if (flags.endpoints === undefined && flags.config === undefined)
      throw new SluiceError(
        "FLAG_MISSING",
        "give --endpoints FILE, the list of model servers (see examples/endpoints.yaml), or --config FILE (see examples/gateway.yaml)",
      );
    const { runGateway } = await import("../../wires/gateway/gateway.ts");
    const file = flags.config === undefined ? undefined : { path: flags.config, seen, settings, warnings, read };
    process.exitCode = await runGateway(options, file, first);
  });
}
