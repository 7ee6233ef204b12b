#!/usr/bin/env node
// The first file that any Node.js reads, however old it is: it says which one is needed instead of failing somewhere in the
// sources. So it has no import of its own, and no syntax that is younger than import().

/** As "engines" in package.json says. */
const NEEDED = [24, 15] as const;

const version = process.versions.node.split(".").map(Number);
if (version[0]! > NEEDED[0] || (version[0] === NEEDED[0] && version[1]! >= NEEDED[1])) void import("./program.ts");
else {
  process.stderr.write(
    "sluice needs Node.js " +
      NEEDED.join(".") +
      " or newer; this is " +
      process.version +
      ", " +
      process.execPath +
      "\n",
  );
  process.exitCode = 1;
}
