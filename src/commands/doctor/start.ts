import type { Output } from "../common/command.ts";
import { findingsOf } from "./checks.ts";
import { exitStatus } from "./finding.ts";
import { type DoctorSettings, gather } from "./gather.ts";
import { reportJson, reportText } from "./report.ts";

/**
 * Checks a running installation and prints a line for each finding.
 * @returns the exit status: 0, or 1 when a check fails
 * @throws SluiceError FLAG_VALUE, FLAG_CONFLICT, DOCUMENT_... for a file of a flag
 */
export async function runDoctor(
  settings: DoctorSettings & { readonly json: boolean },
  output: Output,
): Promise<number> {
  const findings = findingsOf(await gather(settings));
  output.out(settings.json ? reportJson(findings) : reportText(findings));
  return exitStatus(findings);
}
