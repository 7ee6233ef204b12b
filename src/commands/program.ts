/**
 * What `main.ts` loads after its check of the Node.js version. The version is the one answer that needs no command line: programs
 * ask for it to see whether Sluice is there.
 */
import { VERSION } from "../base/process/version.ts";
import { keepCompiled } from "./compile-cache.ts";

const args = process.argv.slice(2);
if (args.length === 1 && (args[0] === "--version" || args[0] === "-V")) process.stdout.write(`${VERSION}\n`);
else {
  keepCompiled(process.env);
  await (await import("./command-line.ts")).runCommandLine(args);
}
