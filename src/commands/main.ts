#!/usr/bin/env node
// The first file that Node.js reads. An old Node.js must reach the message about the required version. So this file has no
// static import, and no syntax that is newer than import().

/** The minimum of "engines" in package.json. */
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
