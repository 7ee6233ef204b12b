/** The Node.js release whose V8 was measured and is known to have the flags. Another release would only print a complaint. */
const MEASURED = 26;

/** Whether this Node.js has the flags of V8 that Sluice sets at run time. */
export function isMeasured(): boolean {
  return Number(process.versions.node.split(".")[0]) >= MEASURED;
}

/** The options of Node.js and V8 that the operator gave. */
export function givenOptions(): readonly string[] {
  return [...process.execArgv, process.env["NODE_OPTIONS"] ?? ""];
}
