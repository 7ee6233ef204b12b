import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";
import { collect, command, STANDARD } from "../common/command.ts";

interface EnvoyConfigFlags {
  readonly resources?: string;
  readonly poolName?: string;
  readonly poolNamespace?: string;
  readonly variant: string;
  readonly envoyVersion: string;
  readonly listen: string;
  readonly admin: string;
  readonly picker: readonly string[];
  readonly tls: boolean;
  readonly pin: readonly string[];
  readonly ca?: string;
  readonly failureMode?: string;
  readonly requestBodyMode?: string;
  readonly endpoints?: string;
  readonly subset: string;
  readonly subsetHeader: string;
}

/**
 * `sluice envoy-config`: writes an Envoy bootstrap for an InferencePool to standard output, and the settings of the pool that
 * Envoy cannot follow to standard error.
 */
export function envoyConfigCommand(output = STANDARD): Command {
  return command("envoy-config", "print an Envoy configuration made from an InferencePool")
    .option("--resources <folder>", "required: manifests with the InferencePool, as YAML or JSON")
    .option("--pool-name <name>", "the InferencePool; required if several exist")
    .option("--pool-namespace <namespace>", "the same")
    .option("--variant <variant>", "kind: standalone, override-host, subset-hint or tls", "standalone")
    .option("--envoy-version <version>", "release, 1.36 to 1.40; the output has only fields of this release", "1.40")
    .option("--listen <address>", "address for clients", "127.0.0.1:8081")
    .option("--admin <address>", "address of Envoy's admin pages", "127.0.0.1:19000")
    .option(
      "--picker <address>",
      "address of the picker, instead of the Service that the pool names; repeatable: Envoy balances over all addresses",
      collect,
      [],
    )
    .option("--tls", "connect to the picker with TLS in every variant", false)
    .option("--pin <digest>", "with TLS: base64 SHA-256 of the picker's public key; repeatable", collect, [])
    .option("--ca <file>", "with TLS: file of the CA that signed the picker's certificate")
    .option("--failure-mode <mode>", "FailOpen or FailClose, instead of the pool's")
    .option("--request-body-mode <mode>", "full-duplex or buffered; default: buffered if fail-open needs it")
    .option("--endpoints <file>", "for override-host: the model servers")
    .option("--subset <list>", "for subset-hint: the endpoints among which the picker chooses, comma-separated", "")
    .option(
      "--subset-header <name>",
      "for subset-hint: request header with a list of endpoints; empty = no header",
      "x-pool-subset",
    )
    .action(async (flags: EnvoyConfigFlags, self: Command) => {
      if (flags.resources === undefined)
        throw new SluiceError("FLAG_MISSING", "give --resources FOLDER, the manifests with the InferencePool");
      const { envoyConfig } = await import("./start.ts");
      const { text, warnings } = await envoyConfig({
        resources: flags.resources,
        poolName: flags.poolName,
        poolNamespace: flags.poolNamespace,
        variant: flags.variant,
        envoyVersion: flags.envoyVersion,
        listen: flags.listen,
        admin: flags.admin,
        pickers: flags.picker,
        tls:
          flags.tls || flags.pin.length > 0 || flags.ca !== undefined ? { pins: flags.pin, ca: flags.ca } : undefined,
        failureMode: flags.failureMode,
        requestBodyMode: flags.requestBodyMode,
        endpointsFile: flags.endpoints,
        subset: flags.subset
          .split(",")
          .map((part) => part.trim())
          .filter((part) => part !== ""),
        subsetHeader: flags.variant === "subset-hint" ? flags.subsetHeader.trim().toLowerCase() : "",
        command: asTyped(self),
      });
      for (const warning of warnings) output.err(`sluice: ${warning}\n`);
      output.out(text);
    });
}

/** The command line with the options of the user in a fixed order. */
function asTyped(self: Command): string {
  const words = ["sluice", self.name()];
  for (const option of self.options) {
    const key = option.attributeName();
    if (self.getOptionValueSource(key) !== "cli") continue;
    const value: unknown = self.getOptionValue(key);
    if (value === true) words.push(option.long!);
    else for (const one of Array.isArray(value) ? value : [value]) words.push(option.long!, shellWord(String(one)));
  }
  return words.join(" ");
}

function shellWord(text: string): string {
  return /^[\w./:,@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
