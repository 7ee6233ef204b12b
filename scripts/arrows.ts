/**
 * The arrow check: which room of src/ may import which (type-only and dynamic imports included), and that only the clock
 * room reads the time. Tests are free: they may look anywhere.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";

/** What each room may import besides itself and the rooms in `EVERYONE`. */
export const ARROWS: Readonly<Record<string, readonly string[] | "all">> = {
  commands: [
    "base/process",
    "commands/check-server",
    "commands/config",
    "commands/demo",
    "commands/dispatch",
    "commands/envoy-config",
    "commands/epp",
    "commands/explain",
    "commands/gateway",
    "commands/sim",
    "commands/simulate",
  ],
  "commands/simulate": ["commands/common", "lab/study"],
  "commands/sim": ["base/process", "commands/common", "lab/simulator"],
  "commands/gateway": ["commands/common", "pool/resources", "wires/gateway"],
  "commands/explain": ["base/document", "base/process", "commands/common", "picker/core", "picker/decisions"],
  "commands/epp": [
    "base/document",
    "base/grpc",
    "base/plugin",
    "base/process",
    "commands/common",
    "picker/config",
    "picker/core",
    "picker/exchange",
    "picker/flowcontrol",
    "pool/controllers",
    "pool/endpoints",
    "pool/kubernetes",
    "pool/resources",
    "wires/admin",
    "wires/extproc",
  ],
  "commands/envoy-config": ["base/document", "commands/common", "pool/endpoints", "pool/resources", "wires/envoy"],
  "commands/dispatch": [
    "async/batch",
    "async/brokers",
    "async/dispatch",
    "async/gates",
    "base/document",
    "base/plugin",
    "base/process",
    "commands/common",
    "picker/core",
    "wires/admin",
  ],
  "commands/demo": ["base/document", "commands/common", "lab/demo"],
  "commands/config": [
    "base/document",
    "base/plugin",
    "commands/common",
    "picker/config",
    "picker/core",
    "picker/scheduling",
  ],
  "commands/check-server": ["base/document", "commands/common", "lab/check"],
  "commands/common": ["base/document", "picker/core", "picker/exchange"],
  "lab/check": ["pool/endpoints"],
  "lab/simulator": ["base/document"],
  "lab/study": [
    "base/document",
    "base/plugin",
    "base/process",
    "lab/simulator",
    "picker/config",
    "picker/core",
    "picker/decisions",
    "picker/flowcontrol",
    "picker/scheduling",
    "pool/endpoints",
  ],
  "lab/demo": ["async/brokers", "base/process", "lab/simulator", "wires/admin", "wires/gateway"],
  "wires/envoy": ["pool/resources"],
  "wires/admin": ["base/grpc", "picker/core", "picker/decisions"],
  "wires/gateway": [
    "base/document",
    "base/process",
    "picker/core",
    "picker/exchange",
    "pool/endpoints",
    "pool/resources",
    "wires/admin",
    "wires/proxy",
  ],
  "wires/proxy": ["picker/exchange"],
  "wires/extproc": ["base/grpc", "picker/exchange"],
  "picker/testing": ["base/plugin", "picker/decisions", "picker/scheduling"],
  "picker/config": ["base/document", "base/plugin"],
  "picker/decisions": ["base/document", "base/plugin", "picker/scheduling"],
  "picker/prefix": [],
  "picker/scheduling": ["base/plugin", "picker/prefix"],
  "picker/flowcontrol": ["base/plugin"],
  "picker/apis": ["base/grpc", "base/plugin"],
  "picker/exchange": [
    "base/plugin",
    "picker/apis",
    "picker/decisions",
    "picker/flowcontrol",
    "picker/scheduling",
    "pool/endpoints",
    "pool/resources",
  ],
  "picker/core": [
    "base/document",
    "base/grpc",
    "base/plugin",
    "base/process",
    "picker/apis",
    "picker/config",
    "picker/exchange",
    "picker/flowcontrol",
    "picker/scheduling",
    "pool/endpoints",
    "pool/resources",
  ],
  "async/dispatch": ["async/brokers", "async/gates", "base/document", "base/plugin"],
  "async/batch": ["async/brokers", "async/dispatch", "base/document", "base/process"],
  "async/gates": ["async/brokers", "async/dispatch", "base/document", "base/plugin"],
  "async/brokers": ["base/document", "base/plugin"],
  "pool/controllers": ["base/plugin", "pool/endpoints", "pool/kubernetes", "pool/resources"],
  "pool/kubernetes": ["base/document"],
  "pool/resources": ["base/document"],
  "pool/endpoints": ["base/document", "base/plugin"],
  "base/process": [],
  "base/grpc": [],
  "base/telemetry": [],
  "base/clock": [],
  "base/document": [],
  "base/plugin": ["base/document"],
  "base/inference": [],
};
const EVERYONE = ["base/inference", "base/clock", "base/telemetry"];
const CLOSED: Readonly<Record<string, readonly string[]>> = {
  "base/inference": [],
  "base/clock": [],
  "base/telemetry": ["base/inference", "base/clock"],
};
const IMPORT = /(?:\bfrom\s*|\bimport\s*\(?\s*)["']([^"']+)["']/g;

/** The room that a file is in: the longest name that its path begins with. @param file path below src/, with forward slashes */
function roomOf(file: string): string | undefined {
  let room = file;
  while (room.includes("/")) {
    room = room.slice(0, room.lastIndexOf("/"));
    if (ARROWS[room] !== undefined) return room;
  }
  return undefined;
}

/** The violations in one file's text, each a sentence. @param file path below src/, with forward slashes */
export function violationsIn(file: string, text: string): string[] {
  const found: string[] = [];
  const room = roomOf(file);
  if (room === undefined) return [`${file}: lies in no room of the house`];
  const allowed = ARROWS[room]!;
  const may = (target: string | undefined): boolean => {
    if (target === undefined) return false;
    if (target === room) return true;
    if (CLOSED[room] !== undefined) return CLOSED[room].includes(target);
    if (EVERYONE.includes(target)) return true;
    return allowed === "all" ? target !== "cli" : allowed.includes(target);
  };
  for (const [, specifier] of text.matchAll(IMPORT)) {
    if (specifier === undefined || !specifier.startsWith(".")) continue;
    const target = relative(resolve("/src"), resolve("/src", dirname(file), specifier))
      .split(sep)
      .join("/");
    if (target.startsWith("..")) found.push(`${file}: imports ${specifier}, which lies outside src/`);
    else if (!may(roomOf(target)))
      found.push(`${file}: ${room} may not import ${roomOf(target) ?? target} (${specifier})`);
  }
  if (room !== "base/clock" && /new Date\(\)/.test(text)) found.push(`${file}: reads the time; it comes from a Clock`);
  return found;
}

/** Every source file below `root`, tests and case files left out. */
function sources(root: string): string[] {
  return readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !/\.(test|cases)\.ts$/.test(name))
    .map((name) => name.split(sep).join("/"));
}

if (import.meta.main) {
  const root = join(import.meta.dirname, "..", "src");
  const files = sources(root);
  const found = files.flatMap((file) => violationsIn(file, readFileSync(join(root, file), "utf8")));
  for (const violation of found) console.error(violation);
  if (files.length === 0) console.error("the arrow check found no files: it proves nothing");
  if (found.length > 0 || files.length === 0) process.exit(1);
  console.log(`arrows: ${files.length} files, no violation`);
}
