import { checkGates } from "../../async/dispatch/config/check-gates.ts";
import { type ConfigDocument, Findings, readConfigDocument } from "../../async/dispatch/config/config-document.ts";
import { type DispatchFile, dispatchFileOf } from "../../async/dispatch/config/dispatch-file.ts";
import { readParts, readPools } from "../../async/dispatch/config/options.ts";
import { AT_START, TRANSPORTS } from "../../async/dispatch/config/transport-fields.ts";
import { mergePolicy } from "../../async/dispatch/merge/policy-file.ts";
import { readTlsFiles } from "../../async/dispatch/send/client-tls.ts";
import { requestTransforms } from "../../async/dispatch/transforms/transforms-file.ts";
import type { GateCheck } from "../../async/gates/check-gate.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import type { Document } from "../../base/document/document.ts";
import { counted } from "../../base/document/words.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { type ReadableContent, readable, transportFor } from "./dispatch-content.ts";
import { gateCheckOf, parseDispatchFlags } from "./dispatch-flags.ts";
import { DispatchSettings, fileSchemas } from "./dispatch-settings.ts";

/** What a check of a file for `sluice dispatch` found. */
export interface DispatchVerdict {
  /** The contents in one line; undefined when there is a fault. */
  readonly summary: string | undefined;
  readonly error: Pick<SluiceError, "code" | "message"> | undefined;
  readonly warnings: readonly string[];
}

/**
 * Checks a dispatch.yaml with the files that it names, or one of the reference's files, and reports the faults of all parts
 * together, each with its place. It connects to nothing. It leaves out what only the environment of a start can say.
 * @param folder base of the relative paths in the document
 */
export async function validateDispatch(document: Document, folder: string): Promise<DispatchVerdict> {
  const findings = new Findings();
  const { content, whole, isPart } = readable({ ...document, folder }, findings);
  const errors: Pick<SluiceError, "code" | "message">[] = [];
  const attempt = async <T>(read: () => T | Promise<T>): Promise<T | undefined> => {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error;
      errors.push({ code: error.code, message: error.message });
      return undefined;
    }
  };
  const file = await dispatchFileOf(content === "dispatch" ? whole : NOTHING, fileSchemas(), findings);
  const settings = DispatchSettings.ofFile(parseDispatchFlags([], {}), file);
  if (content === "dispatch") await attempt(() => settings.validate());
  const plugins = await attempt(async () => (await import("./start.ts")).loadDispatchPlugins(file.plugins, realClock));
  const check = gateCheckOf(settings, plugins && { definitions: plugins.gates, sources: plugins.sources });
  // A file of the reference has its place beside flags that are not known here.
  const gates = content === "dispatch" ? check : { ...check, prometheusUrl: PROMETHEUS_AT_START };
  const random = new SeededRandom(1);
  const part = (name: ReadableContent["content"], flag: PathFlag, section: Parameters<DispatchFile["section"]>[0]) =>
    content === name ? whole : attempt(() => documentOf(settings, flag, section));
  const pools = await part("pools", "pool-config-file", "pool-config");
  const transport = await part("transport", "transport-config-file", "transport-config");
  const parts = [...(await checkQueues({ whole, content, isPart, file, settings, pools, transport, gates }, findings))];
  const merge = await part("merge", "request-merge-policy-config-file", "request-merge-policy-config");
  if (merge !== undefined && (await attempt(() => mergePolicy(merge, random))) !== undefined)
    parts.push("merge policy");
  const transforms = await part("transforms", "transform-config-file", "transform-config");
  if (transforms !== undefined && (await attempt(() => requestTransforms(transforms, random))) !== undefined)
    parts.push("transforms");
  const tls = {
    ca: settings.pathOf("tls-ca-cert"),
    cert: settings.pathOf("tls-cert"),
    key: settings.pathOf("tls-key"),
  };
  await readTlsFiles(tls, (which, problem) =>
    findings.refuse(whole, [which === "ca" ? "tls-ca-cert" : `tls-${which}`], problem),
  );
  await attempt(() => findings.throwIfAny("dispatch configuration"));
  const warnings = [...settings.warnings, ...findings.warnings];
  if (errors.length === 0)
    return { summary: parts.join("; ") || "settings without a transport", error: undefined, warnings };
  // The last error has the places: they come first, then what concerns a whole part.
  const places = errors.at(-1)!;
  const message = [places, ...errors.slice(0, -1)].map((error) => error.message).join("\n");
  // The error repeats unknown keys, which may be its cause.
  return {
    summary: undefined,
    error: { code: places.code, message },
    warnings: warnings.filter((text) => !message.includes(text)),
  };
}

/** The parts of a file that have queues, worker pools and gates. */
interface QueueParts {
  readonly whole: ConfigDocument;
  readonly content: ReadableContent["content"];
  readonly isPart: boolean;
  readonly file: DispatchFile;
  readonly settings: DispatchSettings;
  readonly pools: ConfigDocument | undefined;
  readonly transport: ConfigDocument | undefined;
  readonly gates: GateCheck;
}

/** Checks the transport, the worker pools and their gates. @returns what there is, in a few words each */
async function checkQueues(
  { whole, content, isPart, file, settings, pools, transport, gates }: QueueParts,
  findings: Findings,
): Promise<readonly string[]> {
  if (transport === undefined) {
    // The command line of a start may give the rest.
    if (!isPart && settings.pathOf("transport-config-file") === undefined)
      findings.warn(
        whole,
        [],
        "has neither transport-config nor transport-config-file; the command line must give one of them",
      );
    if (pools === undefined) return [];
    const read = readPools(pools, findings);
    checkGates(pools, [], gates, findings);
    return [counted(read.length, "worker pool")];
  }
  const name = content === "transport" ? transportFor(transport.value) : file.transport;
  if (name === undefined) {
    if ((whole.value as { transport?: unknown }).transport === undefined)
      findings.refuse(
        whole,
        [],
        `has a transport configuration but no \`transport\`; write one of ${TRANSPORTS.join(", ")}`,
      );
    return [];
  }
  const read = await readParts(
    {
      transport: { name, document: transport },
      pools: pools ?? (content === "transport" ? "elsewhere" : undefined),
      ...{ concurrency: 1, gates, redisUrl: AT_START, gated: true },
    },
    findings,
  );
  const as = content === "transport" && transport.value !== undefined ? `transport, read as ${name}` : name;
  return [
    ...(read.transport === undefined ? [] : [`${as}: ${counted(read.transport.queues.length, "queue")}`]),
    ...(pools === undefined ? [] : [counted(read.pools.length, "worker pool")]),
  ];
}

/** Stands for the `--prometheus-url` of a start. */
const PROMETHEUS_AT_START = "http://prometheus-url-at-the-start";

type PathFlag = Parameters<DispatchSettings["document"]>[0];

/** A document without content, for files that are no dispatch.yaml. */
const NOTHING: ConfigDocument = {
  file: "",
  text: "",
  folder: ".",
  value: {},
  positionOf: () => ({ file: "", line: 1, column: 1 }),
};

async function documentOf(
  settings: DispatchSettings,
  flag: PathFlag,
  section: Parameters<DispatchFile["section"]>[0],
): Promise<ConfigDocument | undefined> {
  const inline = settings.file?.section(section);
  const path = settings.pathOf(flag);
  if (inline !== undefined && path !== undefined) return settings.document(flag, section);
  return inline ?? (path === undefined ? undefined : readConfigDocument(path));
}
