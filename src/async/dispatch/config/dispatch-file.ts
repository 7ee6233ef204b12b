import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { z } from "zod";
import { formatPosition } from "../../../base/document/document.ts";
import { isObject } from "../../../base/document/json-object.ts";
import { type ConfigDocument, Findings, readConfigDocument, sectionOf } from "./config-document.ts";
import { TRANSPORTS, type TransportName } from "./transport-fields.ts";

const MAX_PLUGINS = 100;
const MAPPING = z.record(z.string(), z.unknown());

/** The keys of dispatch.yaml that hold the content of the reference's files. */
const SECTIONS = {
  "transport-config": MAPPING,
  "pool-config": z.array(z.unknown()),
  "request-merge-policy-config": MAPPING,
  "transform-config": MAPPING,
} as const;

export type SectionName = keyof typeof SECTIONS;

/** The content of a dispatch.yaml; its sections are not read yet. */
export interface DispatchFile {
  /** Folder of the file: the base of relative paths in it. */
  readonly folder: string;
  /** Values of the keys that are flags, by name; a key that the file lacks is absent. */
  readonly values: Readonly<Record<string, unknown>>;
  readonly transport: TransportName | undefined;
  /** Absolute paths of files that exist. */
  readonly plugins: readonly string[];
  section(name: SectionName): ConfigDocument | undefined;
  /** `file:line:column: key`, for messages. */
  placeOf(key: string): string;
}

/**
 * Reads a dispatch.yaml: one file whose keys are the flags' names, with the reference's files as sections.
 * @param flags schemas of the keys that are flags of `sluice dispatch`, by name; the file may lack any of them
 * @throws SluiceError DOCUMENT_... with every violation and its place; an unknown key is a violation
 */
export async function readDispatchFile(
  path: string,
  flags: Readonly<Record<string, z.ZodType>>,
): Promise<DispatchFile> {
  const findings = new Findings();
  const file = await dispatchFileOf(await readConfigDocument(path), flags, findings);
  findings.throwIfAny("dispatch configuration");
  return file;
}

/**
 * As `readDispatchFile`, of a document that was read. Keys with faults count as absent, but sections are there if they have the
 * right shape, so that their own faults can be found, too.
 * @param findings gets every violation with its place
 */
export async function dispatchFileOf(
  document: ConfigDocument,
  flags: Readonly<Record<string, z.ZodType>>,
  findings: Findings,
): Promise<DispatchFile> {
  const ours = z.object({
    transport: z.enum(TRANSPORTS),
    plugins: z.array(z.string().min(1)).max(MAX_PLUGINS),
    ...SECTIONS,
  });
  const schema = z.strictObject({ ...flags, ...ours.shape }).partial();
  const found: Readonly<Record<string, unknown>> = findings.check(document, schema) ?? wellFormed(document, schema);
  const { transport, plugins = [] } = found as Partial<z.output<typeof ours>>;
  const modules = plugins.map((plugin) => resolve(document.folder, plugin));
  for (const [at, module] of modules.entries())
    if (!(await isFile(module))) findings.refuse(document, ["plugins", at], `there is no file ${module}`);
  return {
    folder: document.folder,
    values: Object.fromEntries(Object.entries(found).filter(([key]) => Object.hasOwn(flags, key))),
    transport,
    plugins: modules,
    section: (name) => (found[name] === undefined ? undefined : sectionOf(document, name)),
    placeOf: (key) => `${formatPosition(document.positionOf([key]))}: ${key}`,
  };
}

/** The values of the keys that are right, where others are not. */
function wellFormed({ value }: ConfigDocument, { shape }: z.ZodObject): Readonly<Record<string, unknown>> {
  if (!isObject(value)) return {};
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, given]) => {
      const parsed = Object.hasOwn(shape, key) ? (shape[key] as z.ZodType).safeParse(given) : undefined;
      return parsed?.success === true ? [[key, parsed.data]] : [];
    }),
  );
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
