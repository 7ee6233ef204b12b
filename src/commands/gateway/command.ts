import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";
import { parseListenAddress } from "../../base/inference/listen-address.ts";
import { RESOURCE_DEFAULTS, resourceSettings } from "../../pool/resources/resource-settings.ts";
import { collect, command, STANDARD, trueOrFalse, wholeNumber } from "../common/command.ts";
import {
  type BodyOptions,
  bodySettingsFrom,
  type ExplainOptions,
  explainSettingsFrom,
  LEARN_HELP,
  withBodyOptions,
  withExplainOptions,
} from "../common/exchange-flags.ts";
import { type KeysOptions, keysSettingsFrom, withKeysOptions } from "./keys-options.ts";
import { type LimitsOptions, limitsFrom, withLimitsOptions } from "./limits-options.ts";
import { type LogOptions, logSettingsFrom, withLogOptions } from "./log-options.ts";

interface GatewayFlags extends ExplainOptions, BodyOptions, KeysOptions, LimitsOptions, LogOptions {
  readonly endpoints?: string;
  readonly listen: string;
  readonly admin: string;
  readonly scaler?: string;
  readonly configFile?: string;
  readonly profile?: string;
  readonly allowExperimentalPlugins: boolean;
  readonly maxRetries: string;
  readonly retryStatuses: string;
  readonly allowPath: readonly string[];
  readonly printPaths: boolean;
  readonly objective: readonly string[];
  readonly resources?: string;
  readonly poolName?: string;
  readonly poolNamespace?: string;
  readonly modelMatching: string;
  readonly standardShedAt: string;
  readonly legacyCriticality: boolean;
  readonly learnBytesPerToken: string;
  readonly debugOpen: boolean;
}

/** `sluice gateway`: an OpenAI-compatible reverse proxy with prefix- and load-aware routing, in one process. */
export function gatewayCommand(): Command {
  const made = command("gateway", "route HTTP requests to model servers, without Kubernetes and without Envoy")
    .option("--endpoints <file>", "required: the model servers, as YAML or JSON; watched for changes")
    .option("--listen <address>", "address for clients", "127.0.0.1:8080")
    .option("--admin <address>", "address of /metrics, /debug and the page", "127.0.0.1:19001")
    .option(
      "--scaler <address>",
      "address of the external scaler, which KEDA asks how many requests wait; absent = none",
    )
    .option("--config-file <file>", "an EndpointPickerConfig; without it the default profile is used")
    .option("--allow-experimental-plugins", "permit alpha plugins in the configuration", false)
    .option(
      "--profile <name>",
      "a built-in profile instead: default, sticky-until-saturated, or legacy-v0.3, the decision tree of that release",
    )
    .option("--max-retries <number>", "retries on other endpoints after one fails before its answer", "2")
    .option("--retry-statuses <list>", "statuses that cause a retry, comma-separated", "503")
    .option(
      "--allow-path <path>",
      "dangerous: pass requests to this path of administration too, or to all under it with a final /*; repeatable",
      collect,
      [],
    )
    .option("--print-paths", "print which paths pass with these flags, and exit", false)
    .option("--objective <name=priority>", "an InferenceObjective; repeatable", collect, [])
    .option("--resources <folder>", "manifests of InferencePool, InferenceModel and the like; watched for changes")
    .option("--pool-name <name>", "the InferencePool; required if there are several")
    .option("--pool-namespace <namespace>", "namespace of the pool, and of manifests that name none")
    .option(
      "--model-matching <mode>",
      "404 for a model name without an InferenceModel: auto, enforce or off",
      RESOURCE_DEFAULTS.modelMatching,
    )
    .option(
      "--standard-shed-at <saturation>",
      "saturation at which requests for InferenceModels of Standard criticality can be shed",
      RESOURCE_DEFAULTS.standardShedAt,
    )
    .option("--legacy-criticality", "shed Standard like Sheddable, as v0.3 did", false)
    .option("--learn-bytes-per-token <true|false>", LEARN_HELP, "true")
    .option("--debug-open", "let /debug and the page answer every client, not only loopback", false);
  return withLogOptions(withExplainOptions(withBodyOptions(withLimitsOptions(withKeysOptions(made))))).action(
    async (flags: GatewayFlags) => {
      const source = {
        configFile: flags.configFile,
        profile: flags.profile,
        allowExperimental: flags.allowExperimentalPlugins,
        env: process.env,
      };
      if (flags.printPaths) {
        const { pathsText } = await import("../../wires/gateway/paths-text.ts");
        STANDARD.out(await pathsText(source, flags.allowPath));
        return;
      }
      // Commander would check a required option before it reports mistyped options. So this command checks it.
      if (flags.endpoints === undefined)
        throw new SluiceError(
          "FLAG_MISSING",
          "give --endpoints FILE, the list of model servers (see examples/endpoints.yaml)",
        );
      // Loaded on use: `sluice sim` needs none of it.
      const { runGateway } = await import("../../wires/gateway/gateway.ts");
      process.exitCode = await runGateway({
        endpointsFile: flags.endpoints,
        listen: parseListenAddress(flags.listen, "--listen"),
        admin: parseListenAddress(flags.admin, "--admin"),
        scaler: flags.scaler === undefined ? undefined : parseListenAddress(flags.scaler, "--scaler"),
        ...source,
        maxRetries: wholeNumber(flags.maxRetries, "--max-retries", 0, 7),
        retryStatuses: flags.retryStatuses
          .split(",")
          .filter((part) => part.trim() !== "")
          .map((part) => wholeNumber(part, "--retry-statuses", 400, 599)),
        allowPaths: flags.allowPath,
        objectives: flags.objective,
        resources: resourceSettings({
          directory: flags.resources,
          pool: { name: flags.poolName, namespace: flags.poolNamespace },
          namespace: flags.poolNamespace ?? "default",
          modelMatching: flags.modelMatching,
          standardShedAt: flags.standardShedAt,
          legacyCriticality: flags.legacyCriticality,
        }),
        learnsBytesPerToken: trueOrFalse(flags.learnBytesPerToken, "--learn-bytes-per-token"),
        debugOpen: flags.debugOpen,
        keys: await keysSettingsFrom(flags),
        limits: limitsFrom(flags),
        bodies: bodySettingsFrom(flags),
        explain: explainSettingsFrom(flags),
        ...logSettingsFrom(flags),
      });
    },
  );
}
