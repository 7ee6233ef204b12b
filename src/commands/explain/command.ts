import { styleText } from "node:util";
import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";
import { command, type Output, STANDARD } from "../common/command.ts";

interface ExplainFlags {
  readonly last: boolean;
  readonly all: boolean;
  readonly admin?: string;
  readonly caCert?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly tokenFile?: string;
  readonly json: boolean;
  readonly full: boolean;
  readonly replay?: string;
  readonly configFile?: string;
  readonly profile?: string;
  readonly allowExperimentalPlugins: boolean;
}

/** `sluice explain`: asks a running process why a request went to its endpoint. */
export function explainCommand(output = STANDARD): Command {
  return command("explain", "explain why a request went to its endpoint, or why it was refused")
    .argument("[id]", "the x-request-id of the request, its first eight characters, or the number of the decision")
    .option("--last", "explain the newest decision", false)
    .option(
      "--admin <address>",
      "admin port of a running sluice epp or gateway; default: 127.0.0.1:9090, then 127.0.0.1:19001",
    )
    .option("--ca-cert <file>", "PEM file of the CA of an https:// admin port")
    .option("--cert <file>", "PEM file of the client certificate for an https:// admin port")
    .option("--key <file>", "key of the client certificate")
    .option("--token-file <file>", "file with a bearer token, if the admin port requires one, as in Kubernetes")
    .option("--json", "print one JSON object", false)
    .option("--all", "with --full: print all full records, as JSON lines", false)
    .option("--full", "print the full record of the decision as JSON, if there is one", false)
    .option("--replay <file>", "repeat the decision of a full record, and compare the result")
    .option("--config-file <file>", "the EndpointPickerConfig to replay with; default: the built-in configuration")
    .option("--profile <name>", "the built-in profile to replay with: same names as for --profile of sluice gateway")
    .option("--allow-experimental-plugins", "permit alpha plugins in the file of --config-file", false)
    .action(async (id: string | undefined, flags: ExplainFlags) => {
      if (flags.replay !== undefined) {
        if (id !== undefined || flags.last || flags.all || flags.full || flags.admin !== undefined)
          throw new SluiceError("FLAG_CONFLICT", "--replay reads a file and asks no server: remove the other flags");
        await replayed(flags.replay, flags, output);
        return;
      }
      for (const flag of ["configFile", "profile"] as const)
        if (flags[flag] !== undefined)
          throw new SluiceError("FLAG_CONFLICT", "--config-file and --profile work only with --replay FILE");
      const { admin, caCert, cert, key, tokenFile } = flags;
      const access = { admin, caCert, cert, key, tokenFile };
      // Loaded on use: `sluice sim` needs none of it.
      const { explainedDecision, fullDecision, fullDecisions } = await import("./explain-client.ts");
      if (flags.all) {
        if (id !== undefined || flags.last || !flags.full)
          throw new SluiceError("FLAG_CONFLICT", "--all needs --full, and works without an id and without --last");
        output.out(await fullDecisions(access));
        return;
      }
      const which = whichOf(id, flags);
      if (flags.full) {
        output.out(`${await fullDecision(access, which)}\n`);
        return;
      }
      const explained = await explainedDecision(access, which);
      const { explanationText } = await import("./explain-text.ts");
      output.out(flags.json ? `${JSON.stringify(explained, null, 2)}\n` : explanationText(explained, strong));
    });
}

/** Replays a record and prints the comparison. The exit status is 1 when the decisions differ. */
async function replayed(file: string, flags: ExplainFlags, output: Output): Promise<void> {
  const { replayFile, replayText } = await import("./explain-replay.ts");
  const { configFile, profile, allowExperimentalPlugins: allowExperimental } = flags;
  const report = await replayFile(file, { configFile, profile, allowExperimental });
  output.out(flags.json ? `${JSON.stringify(report, null, 2)}\n` : replayText(report));
  if (!report.same) process.exitCode = 1;
}

/** Bold on a terminal, unless NO_COLOR is set. */
function strong(text: string): string {
  return styleText("bold", text, { stream: process.stdout });
}

/** @throws SluiceError FLAG_MISSING, FLAG_CONFLICT */
function whichOf(id: string | undefined, { last }: ExplainFlags): { readonly id: string } | "newest" {
  if (id !== undefined && last) throw new SluiceError("FLAG_CONFLICT", "give either an id or --last");
  if (id !== undefined) return { id };
  if (last) return "newest";
  throw new SluiceError(
    "FLAG_MISSING",
    "give the x-request-id of a request or the number of a decision, --last, or --replay FILE",
  );
}
