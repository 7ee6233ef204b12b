import { CommanderError } from "commander";
import { ERRORS_PAGE, SluiceError } from "../base/inference/errors.ts";
import { VERSION } from "../base/process/version.ts";
import { COMMANDS, commandIn, nameOf } from "./catalogue.ts";
import { command } from "./common/command.ts";

const EXIT_STATUSES = `
Exit status: 0 = success, 1 = an error, 2 = a wrong command line or wrong input, 130 or 143 = a signal ended the command.
${ERRORS_PAGE} lists the cause and the remedy of every error.`;

const ABOUT = "Decides where LLM requests go: an Endpoint Picker, a gateway and a model-server simulator.";

/** Runs the command line of `sluice`, and sets the exit status of the process. @param args after the program */
export async function runCommandLine(args: readonly string[]): Promise<void> {
  // A reader such as `head` may close the pipe early. The rest of the output then has no reader.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE" && error.code !== "ECONNRESET") throw error;
  });
  try {
    const terms = new Map(COMMANDS.map((row) => [nameOf(row), row.term]));
    const program = command("sluice", ABOUT, "")
      .version(VERSION)
      .enablePositionalOptions()
      .configureHelp({ subcommandTerm: (one) => terms.get(one.name()) ?? `${one.name()} [command]` })
      .addHelpText("after", EXIT_STATUSES);
    const wanted = commandIn(args);
    // The others are names, for the list of commands and for "did you mean".
    for (const row of COMMANDS) program.addCommand(row === wanted ? await row.load() : command(nameOf(row), row.about));
    await program.parseAsync(args, { from: "user" });
  } catch (error) {
    if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
    else if (error instanceof SluiceError) {
      // Loaded on use: the table has the texts of all errors.
      const { errorRow } = await import("../base/inference/error-codes/table.ts");
      const { belowMessage } = await import("./common/error-text.ts");
      process.stderr.write(`sluice: ${error.message}\n${belowMessage(error)}`);
      process.exitCode = errorRow(error.code)?.exit ?? 1;
    } else throw error;
  }
}
