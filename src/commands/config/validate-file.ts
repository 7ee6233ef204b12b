import { dirname, resolve } from "node:path";
import { isObject } from "../../base/document/json-object.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { GATEWAY_SECTIONS } from "../../wires/gateway/gateway-keys.ts";
import { dispatchContentOf } from "../dispatch/dispatch-content.ts";
import { validateDispatch } from "../dispatch/validate-dispatch.ts";
import { type ConfigInput, type ConfigVerdict, documentOf, validateConfig, validateDocument } from "./config-tools.ts";
import { validateEndpoints } from "./validate-endpoints.ts";
import { validateGateway } from "./validate-gateway.ts";

/** The kinds of files that `sluice validate` knows. */
export const FILE_KINDS = ["picker", "gateway", "dispatch", "endpoints"] as const;
export type FileKind = (typeof FILE_KINDS)[number];

/** @throws SluiceError FLAG_VALUE */
export function fileKind(text: string, flag: string): FileKind {
  const found = FILE_KINDS.find((kind) => kind === text);
  if (found !== undefined) return found;
  const hint = didYouMean(text, FILE_KINDS);
  throw new SluiceError(
    "FLAG_VALUE",
    `${flag} is ${JSON.stringify(text.slice(0, 100))}; give ${FILE_KINDS.slice(0, -1).join(", ")} or ${FILE_KINDS.at(-1)}${hint}`,
  );
}

/** Keys that only an EndpointPickerConfig has, and one that files of `sluice dispatch` have, too. */
const PICKER_KEYS: ReadonlySet<string> = new Set(["apiVersion", "kind", "schedulingProfiles"]);
const SHARED_KEY = "plugins";

/**
 * What a file is, by its content: an EndpointPickerConfig says so, an endpoints file has only a list of endpoints, a gateway.yaml
 * has a section of its own, and the files of `sluice dispatch` have queues, worker pools or its flags. Any other file counts as
 * an EndpointPickerConfig.
 */
export function kindOf(value: unknown): FileKind {
  const keys = isObject(value) ? Object.keys(value) : [];
  if (keys.some((key) => PICKER_KEYS.has(key))) return "picker";
  if (keys.includes(SHARED_KEY)) return dispatchContentOf(value) === "dispatch" ? "dispatch" : "picker";
  const sections = keys.filter((key) => GATEWAY_SECTIONS.has(key));
  if (sections.join() === "endpoints" && isObject(value) && Array.isArray(value["endpoints"])) return "endpoints";
  if (sections.length > 0) return "gateway";
  return dispatchContentOf(value) === undefined ? "picker" : "dispatch";
}

/** Whether nothing in a file says what it is. */
function isOfUnknownKind(value: unknown): boolean {
  const keys = isObject(value) ? Object.keys(value) : [];
  return kindOf(value) === "picker" && !keys.some((key) => PICKER_KEYS.has(key) || key === SHARED_KEY);
}

/** Checks a file of any kind. @param kind undefined = the keys of the file decide */
export async function validateFile(input: ConfigInput, kind: FileKind | undefined): Promise<ConfigVerdict> {
  if (kind === "picker") return validateConfig(input);
  let document: Awaited<ReturnType<typeof documentOf>>;
  try {
    document = await documentOf(input);
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    const { code, message } = error;
    return {
      file: input.file === "-" ? "stdin" : input.file,
      summary: undefined,
      error: { code, message },
      warnings: [],
    };
  }
  const found = kind ?? kindOf(document.value);
  if (found === "endpoints") return validateEndpoints(document);
  if (found === "gateway") return validateGateway(document, input);
  if (found === "dispatch") {
    const folder = input.file === "-" ? process.cwd() : dirname(resolve(input.file));
    return { file: document.file, ...(await validateDispatch(document, folder)) };
  }
  const { folderOf } = await import("../../picker/core/config-source.ts");
  const folder = folderOf(input.file === "-" ? undefined : input.file);
  const verdict = await validateDocument(document, folder, input.allowExperimental);
  const { error } = verdict;
  if (error === undefined || kind !== undefined || !isOfUnknownKind(document.value)) return verdict;
  const hint =
    "no key shows the kind of this file: if it is not an EndpointPickerConfig, give --kind gateway, dispatch or endpoints";
  return { ...verdict, error: { ...error, message: `${error.message}\n  ${hint}` } };
}
