import type { Command } from "commander";
import { parseListenAddress } from "../app/address.ts";
import { SluiceError } from "../inference/errors.ts";
import { collect, command, wholeNumber } from "./command.ts";

interface GatewayFlags {
  readonly endpoints?: string;
  readonly listen: string;
  readonly admin: string;
  readonly configFile?: string;
  readonly maxRetries: string;
  readonly retryStatuses: string;
  readonly objective: readonly string[];
  readonly debugOpen: boolean;
}

/** `sluice gateway`: an OpenAI-compatible reverse proxy with prefix- and load-aware routing, in one process. */
export function gatewayCommand(): Command {
  return command("gateway", "route HTTP requests to model servers, without Kubernetes and without Envoy")
    .option("--endpoints <file>", "required: the model servers, as YAML or JSON; watched for changes")
    .option("--listen <address>", "where clients connect", "127.0.0.1:8080")
    .option("--admin <address>", "where /metrics, /debug and the page are", "127.0.0.1:19001")
    .option("--config-file <file>", "an EndpointPickerConfig; without it the default profile is used")
    .option("--max-retries <number>", "further endpoints tried when one fails before it answers", "2")
    .option("--retry-statuses <list>", "answers that are tried elsewhere, comma-separated", "503")
    .option("--objective <name=priority>", "an InferenceObjective; repeatable", collect, [])
    .option("--debug-open", "answer /debug and the page to everyone, not to loopback alone", false)
    .action(async (flags: GatewayFlags) => {
      // Not commander's to demand: it would do so before it looks for mistyped options.
      if (flags.endpoints === undefined)
        throw new SluiceError(
          "FLAG_MISSING",
          "give --endpoints FILE, the list of model servers (see examples/endpoints.yaml)",
        );
      // Loaded on use: `sluice sim` needs none of it.
      const { runGateway } = await import("../app/gateway.ts");
      process.exitCode = await runGateway({
        endpointsFile: flags.endpoints,
        listen: parseListenAddress(flags.listen, "--listen"),
        admin: parseListenAddress(flags.admin, "--admin"),
        configFile: flags.configFile,
        maxRetries: wholeNumber(flags.maxRetries, "--max-retries", 0, 7),
        retryStatuses: flags.retryStatuses
          .split(",")
          .filter((part) => part.trim() !== "")
          .map((part) => wholeNumber(part, "--retry-statuses", 400, 599)),
        objectives: flags.objective,
        debugOpen: flags.debugOpen,
      });
    });
}
