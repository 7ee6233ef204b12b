import { freshRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { createLogger } from "../../base/telemetry/logging.ts";
import { type ConfigSource, checkedConfig } from "../../picker/core/config-source.ts";
import { claimedPaths } from "../../picker/core/in-force.ts";
import { allowedPath } from "../proxy/path-pattern.ts";
import { type PrintedPath, printedPaths } from "../proxy/path-table.ts";

/**
 * The text of `sluice gateway --print-paths`: one line for each path, with methods, kind and result. The lines of the parsers
 * come first, the line for all other paths last.
 * @param allowPaths values of `--allow-path`
 * @throws SluiceError for a fault in the configuration or in `allowPaths`
 */
export async function pathsText(source: ConfigSource, allowPaths: readonly string[]): Promise<string> {
  const allowed = allowPaths.map(allowedPath);
  const log = createLogger({ name: "sluice" });
  const config = await checkedConfig(source, log);
  const claimed = claimedPaths(config, { clock: realClock, random: freshRandom(), log });
  const rows = [HEAD, ...printedPaths(claimed, allowed).map(cellsOf)];
  const widths = [0, 1, 2].map((at) => Math.max(...rows.map((cells) => cells[at]!.length)));
  return rows.map((cells) => `${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join("  ")}\n`).join("");
}

const HEAD = ["METHODS", "PATH", "KIND", "RESULT"];

function cellsOf({ methods, path, kind }: PrintedPath): readonly string[] {
  return [methods, path, kind, kind === "administration" ? "403" : "passes"];
}
