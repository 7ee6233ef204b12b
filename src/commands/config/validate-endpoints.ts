import type { Document } from "../../base/document/document.ts";
import { counted } from "../../base/document/words.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { endpointsOf } from "../../pool/endpoints/endpoints-file.ts";
import { entriesRefused } from "../../pool/endpoints/file-discovery.ts";
import type { ConfigVerdict } from "./config-tools.ts";

/** Checks an endpoints file as a start with `--endpoints FILE` does. */
export function validateEndpoints(document: Document): ConfigVerdict {
  const { file } = document;
  try {
    const { endpoints, problems, warnings } = endpointsOf(document, "lenient");
    if (problems.length === 0)
      return { file, summary: counted(endpoints.length, "endpoint"), error: undefined, warnings };
    const { code, message } = entriesRefused(problems);
    return { file, summary: undefined, error: { code, message }, warnings };
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    return { file, summary: undefined, error: { code: error.code, message: error.message }, warnings: [] };
  }
}
