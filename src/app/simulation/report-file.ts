import { constants } from "node:fs";
import { access, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { messageOf, SluiceError } from "../../inference/errors.ts";
import type { Study } from "./result.ts";

/**
 * A study takes its time: where its report cannot be written it should not begin.
 * @throws SluiceError FLAG_VALUE
 */
export async function checkReportFile(file: string): Promise<void> {
  try {
    await access(dirname(resolve(file)), constants.W_OK);
  } catch (cause) {
    throw new SluiceError("FLAG_VALUE", `--html ${file}: its folder cannot be written to: ${messageOf(cause)}`, {
      cause,
    });
  }
}

/** @throws SluiceError SIMULATE_REPORT */
export async function writeReport(file: string, study: Study): Promise<void> {
  const { renderReport } = await import("./report/report.ts");
  const page = await renderReport(study);
  try {
    await writeFile(file, page);
  } catch (cause) {
    throw new SluiceError("SIMULATE_REPORT", `the report cannot be written: ${messageOf(cause)}`, { cause });
  }
}
