#!/usr/bin/env node
import { Command, CommanderError } from "commander";
import { SluiceError } from "../inference/errors.ts";
import { demoCommand } from "./demo.ts";
import { eppCommand } from "./epp.ts";
import { gatewayCommand } from "./gateway.ts";
import { simCommand } from "./sim.ts";
import { VERSION } from "./version.ts";

const program = new Command("sluice")
  .description("Decides where LLM requests go: an Endpoint Picker, a gateway and a model-server simulator.")
  .version(VERSION)
  .enablePositionalOptions()
  .showHelpAfterError("(add --help for the options)")
  .exitOverride();
for (const make of [demoCommand, gatewayCommand, eppCommand, simCommand]) program.addCommand(make());

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else if (error instanceof SluiceError) {
    process.stderr.write(`sluice: ${error.message}\n`);
    process.exitCode = 1;
  } else throw error;
}
