/** The command line of `sluice`. `main.ts` loads this file after its check of the Node.js version. */
import { CommanderError } from "commander";
import { errorRow } from "../base/inference/error-codes/table.ts";
import { ERRORS_PAGE, SluiceError } from "../base/inference/errors.ts";
import { VERSION } from "../base/process/version.ts";
import { checkServerCommand } from "./check-server/command.ts";
import { command } from "./common/command.ts";
import { belowMessage } from "./common/error-text.ts";
import { explainConfigCommand, migrateConfigCommand, validateCommand } from "./config/command.ts";
import { demoCommand } from "./demo/command.ts";
import { dispatchCommand } from "./dispatch/command.ts";
import { batchCommand, enqueueCommand, queueCommand, resultsCommand } from "./dispatch/queue-commands.ts";
import { doctorCommand } from "./doctor/command.ts";
import { envoyConfigCommand } from "./envoy-config/command.ts";
import { eppCommand } from "./epp/command.ts";
import { explainCommand } from "./explain/command.ts";
import { gatewayCommand } from "./gateway/command.ts";
import { initCommand } from "./init/command.ts";
import { keysCommand } from "./keys/command.ts";
import { simCommand } from "./sim/command.ts";
import { simulateCommand } from "./simulate/command.ts";

const EXIT_STATUSES = `
Exit status: 0 = success, 1 = an error, 2 = a wrong command line or wrong input, 130 or 143 = a signal ended the work.
${ERRORS_PAGE} lists the cause and the remedy of every error.`;

const ABOUT = "Decides where LLM requests go: an Endpoint Picker, a gateway and a model-server simulator.";

const program = command("sluice", ABOUT, "")
  .version(VERSION)
  .enablePositionalOptions()
  .addHelpText("after", EXIT_STATUSES);
for (const make of [
  demoCommand,
  initCommand,
  gatewayCommand,
  keysCommand,
  eppCommand,
  dispatchCommand,
  enqueueCommand,
  resultsCommand,
  queueCommand,
  batchCommand,
  doctorCommand,
  explainCommand,
  validateCommand,
  explainConfigCommand,
  migrateConfigCommand,
  envoyConfigCommand,
  simCommand,
  simulateCommand,
  checkServerCommand,
])
  program.addCommand(make());

// A reader such as `head` may close the pipe early. The rest of the output then has no reader.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE" && error.code !== "ECONNRESET") throw error;
});

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else if (error instanceof SluiceError) {
    process.stderr.write(`sluice: ${error.message}\n${belowMessage(error)}`);
    process.exitCode = errorRow(error.code)?.exit ?? 1;
  } else throw error;
}
