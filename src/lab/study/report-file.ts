import { constants } from "node:fs";
import { access, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { Study } from "./result.ts";

/**
 * A study takes its time: where its report cannot be written it should not begin.
 * @throws SluiceError FLAG_VALUE
 */
export async function checkReportFile(file: string): Promise<void> {
  const folder = dirname(resolve(file));
  try {
    await access(folder, constants.W_OK);
  } catch (cause) {
    const reason = isMissing(cause) ? `there is no folder ${folder}: make it` : messageOf(cause);
    throw new SluiceError("FLAG_VALUE", `--html ${file}: the report cannot be written: ${reason}`, { cause });
  }
  if ((await stat(file).catch(() => undefined))?.isDirectory())
    throw new SluiceError(
      "FLAG_VALUE",
      `--html ${file} is a directory: give a file in it, as ${join(file, "report.html")}`,
    );
}

function isMissing(cause: unknown): boolean {
  return cause instanceof Error && "code" in cause && cause.code === "ENOENT";
}

/** @param command what makes this study again @throws SluiceError SIMULATE_REPORT */
export async function writeReport(file: string, study: Study, command: string | undefined): Promise<void> {
  const { renderReport } = await import("./report/report.ts");
  const page = await renderReport(study, { command });
  try {
    await writeFile(file, page);
  } catch (cause) {
    throw new SluiceError("SIMULATE_REPORT", `the report cannot be written: ${messageOf(cause)}`, { cause });
  }
}
