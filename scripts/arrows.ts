/**
 * The arrow check: which room of src/ may import which (type-only and dynamic imports included), that no arrow leads up and no
 * imports run in a circle, and that only the clock room reads the time. Tests are free: they may look anywhere.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, posix, sep } from "node:path";

/** The floors from the top down: a floor may use the floors below it, never one above. */
export const FLOORS = ["commands", "lab", "wires", "picker", "async", "pool", "base"] as const;

/** What each room may import besides itself and the rooms in `EVERYONE`, from the top down. */
export const ARROWS: Readonly<Record<string, readonly string[]>> = {
  // commands
  commands: [
    "commands/batch",
    "commands/batch-server",
    "commands/check-server",
    "commands/common",
    "commands/config",
    "commands/demo",
    "commands/dispatch",
    "commands/doctor",
    "commands/envoy-config",
    "commands/epp",
    "commands/explain",
    "commands/gateway",
    "commands/init",
    "commands/keys",
    "commands/sim",
    "commands/simulate",
    "commands/top",
    "base/process",
  ],
  "commands/batch": [
    "commands/common",
    "async/batch",
    "async/batch-api",
    "async/dispatch",
    "base/document",
    "base/process",
  ],
  "commands/batch-server": [
    "commands/common",
    "commands/dispatch",
    "wires/access",
    "wires/admin",
    "wires/batch-api",
    "async/batch-api",
    "async/dispatch",
    "base/process",
  ],
  "commands/check-server": ["commands/common", "lab/check", "base/document"],
  "commands/config": [
    "commands/common",
    "commands/dispatch",
    "wires/gateway",
    "picker/config",
    "picker/core",
    "picker/scheduling",
    "pool/discovery",
    "pool/endpoints",
    "base/document",
    "base/plugin",
  ],
  "commands/demo": ["commands/common", "lab/demo", "base/document"],
  "commands/dispatch": [
    "commands/common",
    "wires/admin",
    "picker/core",
    "async/batch",
    "async/brokers",
    "async/dispatch",
    "async/gates",
    "base/document",
    "base/plugin",
    "base/process",
  ],
  "commands/doctor": [
    "commands/common",
    "lab/check",
    "wires/access",
    "wires/gateway",
    "picker/limits",
    "base/document",
    "base/grpc",
    "base/process",
    "base/redis",
  ],
  "commands/envoy-config": ["commands/common", "wires/envoy", "pool/endpoints", "pool/resources", "base/document"],
  "commands/epp": [
    "commands/common",
    "wires/admin",
    "wires/extproc",
    "wires/scaler",
    "picker/config",
    "picker/core",
    "picker/exchange",
    "picker/flowcontrol",
    "pool/controllers",
    "pool/endpoints",
    "pool/kubernetes",
    "pool/peers",
    "pool/resources",
    "base/document",
    "base/grpc",
    "base/plugin",
    "base/process",
  ],
  "commands/explain": ["commands/common", "picker/core", "picker/decisions", "base/document", "base/process"],
  "commands/gateway": [
    "commands/common",
    "wires/access",
    "wires/gateway",
    "pool/resources",
    "base/document",
    "base/process",
  ],
  "commands/keys": ["commands/common", "wires/access", "base/document"],
  "commands/init": ["commands/common", "lab/check", "pool/discovery", "base/document"],
  "commands/sim": ["commands/common", "lab/simulator", "base/process"],
  "commands/top": ["commands/common", "wires/admin", "base/process"],
  "commands/simulate": ["commands/common", "lab/study"],
  "commands/common": [
    "wires/access",
    "picker/core",
    "picker/exchange",
    "async/batch-api",
    "pool/peers",
    "base/document",
    "base/process",
  ],
  // lab
  "lab/check": ["pool/endpoints", "base/grpc"],
  "lab/demo": ["lab/simulator", "wires/admin", "wires/gateway", "async/brokers", "base/process"],
  "lab/study": [
    "lab/simulator",
    "picker/config",
    "picker/core",
    "picker/decisions",
    "picker/flowcontrol",
    "picker/kv-events",
    "picker/prefix",
    "picker/scheduling",
    "pool/endpoints",
    "pool/peers",
    "base/document",
    "base/plugin",
    "base/process",
  ],
  "lab/simulator": ["base/document"],
  // wires
  "wires/envoy": ["pool/resources"],
  "wires/extproc": ["picker/exchange", "base/grpc"],
  "wires/gateway": [
    "wires/access",
    "wires/admin",
    "wires/batch-api",
    "wires/proxy",
    "wires/scaler",
    "picker/config",
    "picker/core",
    "picker/exchange",
    "picker/limits",
    "async/batch-api",
    "pool/discovery",
    "pool/endpoints",
    "pool/peers",
    "pool/resources",
    "base/document",
    "base/process",
    "base/grpc",
    "base/redis",
  ],
  "wires/access": ["wires/proxy", "base/document"],
  "wires/admin": ["picker/core", "picker/decisions", "pool/peers", "base/grpc", "base/process"],
  "wires/batch-api": ["wires/admin", "wires/proxy", "async/batch-api", "base/document", "base/redis"],
  "wires/proxy": ["picker/exchange", "base/grpc"],
  "wires/scaler": ["base/document", "base/grpc"],
  // picker
  "picker/core": [
    "picker/apis",
    "picker/config",
    "picker/exchange",
    "picker/flowcontrol",
    "picker/limits",
    "picker/scheduling",
    "picker/tokenizers",
    "pool/discovery",
    "pool/endpoints",
    "pool/peers",
    "pool/resources",
    "base/document",
    "base/grpc",
    "base/plugin",
    "base/process",
  ],
  "picker/config": ["base/document", "base/plugin"],
  "picker/exchange": [
    "picker/apis",
    "picker/decisions",
    "picker/flowcontrol",
    "picker/limits",
    "picker/scheduling",
    "pool/endpoints",
    "pool/resources",
    "base/plugin",
  ],
  "picker/apis": ["base/grpc", "base/plugin"],
  "picker/flowcontrol": ["base/plugin"],
  "picker/limits": ["picker/scheduling", "base/document", "base/redis"],
  "picker/testing": ["picker/decisions", "picker/scheduling", "base/document", "base/plugin"],
  "picker/decisions": ["picker/scheduling", "base/document", "base/plugin"],
  "picker/scheduling": ["picker/kv-events", "picker/prefix", "base/document", "base/plugin"],
  "picker/kv-events": ["picker/prefix", "base/plugin"],
  "picker/tokenizers": ["picker/scheduling", "base/document", "base/plugin"],
  "picker/prefix": [],
  // async
  "async/batch-api": [
    ...["async/batch", "async/brokers", "async/dispatch", "async/gates"],
    ...["base/document", "base/plugin", "base/process", "base/redis"],
  ],
  "async/batch": ["async/brokers", "async/dispatch", "base/document", "base/process", "base/redis"],
  "async/brokers": ["base/document", "base/plugin", "base/redis"],
  "async/dispatch": ["async/brokers", "async/gates", "base/document", "base/plugin", "base/redis"],
  "async/gates": ["async/brokers", "base/document", "base/plugin", "base/redis"],
  // pool
  "pool/discovery": ["pool/endpoints", "base/document"],
  "pool/controllers": ["pool/endpoints", "pool/kubernetes", "pool/resources", "base/plugin"],
  "pool/endpoints": ["base/document", "base/grpc", "base/plugin"],
  "pool/kubernetes": ["base/document"],
  "pool/peers": ["pool/endpoints", "base/plugin", "base/redis"],
  "pool/resources": ["base/document"],
  // base
  "base/clock": [],
  "base/grpc": ["base/document"],
  "base/inference": [],
  "base/plugin": ["base/document"],
  "base/document": [],
  "base/process": [],
  "base/redis": ["base/grpc"],
  "base/telemetry": ["base/inference", "base/clock"],
};
/** The rooms that every other room may import; they themselves have their own lists alone. */
const EVERYONE = ["base/inference", "base/clock", "base/telemetry"];
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
  const own = [room, ...ARROWS[room]!];
  const allowed = EVERYONE.includes(room) ? own : [...own, ...EVERYONE];
  for (const target of importsOf(file, text)) {
    const other = roomOf(target);
    if (target.startsWith("..")) found.push(`${file}: imports ${target}, which lies outside src/`);
    else if (other === undefined || !allowed.includes(other))
      found.push(`${file}: ${room} may not import ${other ?? "what lies in no room"} (${target})`);
  }
  if (room !== "base/clock" && /new Date\(\)/.test(text)) found.push(`${file}: reads the time; it comes from a Clock`);
  return found;
}

/** Every way in which a table of arrows contradicts the house, each a sentence: arrows that lead up, and circles between rooms. */
export function faultsOf(arrows: Readonly<Record<string, readonly string[]>>): string[] {
  const floorOf = (room: string): number => FLOORS.indexOf(room.split("/")[0] as (typeof FLOORS)[number]);
  const found: string[] = [];
  for (const [room, targets] of Object.entries(arrows)) {
    if (floorOf(room) < 0) found.push(`${room} lies on no floor`);
    for (const target of targets) {
      if (arrows[target] === undefined) found.push(`${room}: there is no room ${target}`);
      else if (floorOf(target) < floorOf(room)) found.push(`${room} may not call up to ${target}`);
    }
  }
  for (const circle of circlesOf(new Map(Object.entries(arrows))))
    found.push(`a circle of rooms: ${circle.join(", ")}`);
  return found;
}

/** Groups of names that lead to one another, by Tarjan's algorithm. @param graph the names that each leads to */
export function circlesOf(graph: ReadonlyMap<string, Iterable<string>>): string[][] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const circles: string[][] = [];
  const visit = (name: string): void => {
    order.set(name, order.size);
    lowest.set(name, order.get(name)!);
    open.push(name);
    for (const next of graph.get(name) ?? []) {
      if (!order.has(next)) visit(next);
      if (open.includes(next)) lowest.set(name, Math.min(lowest.get(name)!, lowest.get(next)!));
    }
    if (lowest.get(name) !== order.get(name)) return;
    const circle = open.splice(open.indexOf(name));
    if (circle.length > 1) circles.push(circle.sort());
  };
  for (const name of graph.keys()) if (!order.has(name)) visit(name);
  return circles;
}

/** The local files that a file imports, as paths below the same folder. @param file path below a folder, with forward slashes */
export function importsOf(file: string, text: string): string[] {
  return [...text.matchAll(IMPORT)]
    .filter(([, specifier]) => specifier!.startsWith("."))
    .map(([, specifier]) => posix.join(posix.dirname(file), specifier!));
}

/**
 * The rooms that the operator's page (`dashboard/src`) may import: the types of what its process tells, the plots of the report, and
 * what replays a decision in the browser. `tsc -p dashboard/tsconfig.json` refuses whatever needs Node.js.
 */
export const PAGE_ARROWS = [
  ...["wires/admin", "lab/study", "picker/decisions", "picker/scheduling"],
  ...["base/plugin", "base/inference", "base/clock", "base/telemetry"],
];

/** The violations in a file of the page. @param file path below dashboard/src/, with forward slashes */
export function pageViolationsIn(file: string, text: string): string[] {
  return [...text.matchAll(IMPORT)]
    .map(([, specifier]) => posix.join("dashboard/src", posix.dirname(file), specifier!))
    .filter((target) => target.startsWith("src/"))
    .filter((target) => !PAGE_ARROWS.includes(roomOf(target.slice("src/".length)) ?? ""))
    .map((target) => `dashboard/src/${file}: the page may not import ${target}`);
}

/** Every source file below `root`, tests left out. */
function sources(root: string): string[] {
  return readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.tsx?$/.test(name) && !name.endsWith(".test.ts"))
    .map((name) => name.split(sep).join("/"));
}

if (import.meta.main) {
  const root = join(import.meta.dirname, "..", "src");
  const files = new Map(sources(root).map((file) => [file, readFileSync(join(root, file), "utf8")]));
  const found = [...files].flatMap(([file, text]) => violationsIn(file, text));
  found.push(...faultsOf(ARROWS));
  const page = join(root, "..", "dashboard", "src");
  for (const file of sources(page)) found.push(...pageViolationsIn(file, readFileSync(join(page, file), "utf8")));
  const graph = new Map([...files].map(([file, text]) => [file, importsOf(file, text)]));
  for (const circle of circlesOf(graph)) found.push(`a circle of files: ${circle.join(", ")}`);
  console.log(`every other room -> ${EVERYONE.join(", ")}`);
  for (const floor of FLOORS) {
    console.log(floor);
    for (const [room, targets] of Object.entries(ARROWS)) {
      const [of, name = "."] = room.split("/");
      if (of === floor) console.log(`  ${name} -> ${targets.join(", ") || "nothing"}`);
    }
  }
  for (const violation of found) console.error(violation);
  if (files.size === 0) console.error("the arrow check found no files: it proves nothing");
  if (found.length > 0 || files.size === 0) process.exit(1);
  console.log(`arrows: ${files.size} files, no violation`);
}
