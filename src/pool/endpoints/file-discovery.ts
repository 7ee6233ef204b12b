import { dirname } from "node:path";
import { z } from "zod";
import type { Clock } from "../../base/clock/clock.ts";
import { FolderWatch, fileSignature } from "../../base/document/folder-watch.ts";
import { readDocument } from "../../base/document/read.ts";
import { counted } from "../../base/document/words.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { defineDiscovery } from "../../base/plugin/define.ts";
import type { EndpointsFlavour } from "./address.ts";
import { type EndpointsFile, endpointsOf } from "./endpoints-file.ts";
import type { AppliedChange, EndpointRegistry } from "./registry.ts";

/** The largest endpoints file, bytes (api-resources 6A.2). */
export const MAX_ENDPOINTS_BYTES = 1024 * 1024;
/** The most problems of one file that get a line each. */
const MAX_TOLD = 20;

/** Reports for people; each text is one line. */
interface DiscoveryLog {
  warn(text: string): void;
  info(text: string): void;
}

export interface FileDiscoveryOptions {
  readonly path: string;
  readonly flavour: EndpointsFlavour;
  /** Follow changes of the file. */
  readonly watchFile: boolean;
  readonly registry: Pick<EndpointRegistry, "apply" | "size" | "maxEndpoints">;
  readonly clock: Clock;
  readonly log: DiscoveryLog;
}

/** Endpoints from a file instead of from Kubernetes (api-resources 6A). It follows the file through its directory. */
export class FileDiscovery {
  readonly #options: FileDiscoveryOptions;
  readonly #watch: FolderWatch;
  #closed = false;

  constructor(options: FileDiscoveryOptions) {
    const { path, clock, log } = options;
    this.#options = options;
    this.#watch = new FolderWatch({
      folder: dirname(path),
      clock,
      signature: () => fileSignature(path),
      changed: () => this.#reload(),
      unwatchable: (text) => log.warn(`endpoints file: ${text}`),
    });
  }

  /**
   * Loads the file and, with `watchFile`, begins to follow it.
   * @throws SluiceError DOCUMENT_... when the file cannot be read, DOCUMENT_INVALID when any entry is invalid
   */
  async start(): Promise<void> {
    const { path, registry } = this.#options;
    const seen = await fileSignature(path);
    const file = await this.#read();
    if (file.problems.length > 0) throw entriesRefused(file.problems);
    this.#tell(registry.apply(file.endpoints), file.warnings);
    if (this.#options.watchFile && !this.#closed) await this.#watch.start(seen);
  }

  /** Stops following the file; the endpoints stay. */
  close(): void {
    this.#closed = true;
    this.#watch.close();
  }

  async #read(): Promise<EndpointsFile> {
    const { path, flavour } = this.#options;
    return endpointsOf(await readDocument(path, { maxBytes: MAX_ENDPOINTS_BYTES }), flavour);
  }

  async #reload(): Promise<void> {
    const { registry, log } = this.#options;
    try {
      const { endpoints, problems, warnings } = await this.#read();
      if (this.#closed) return;
      for (const problem of problems.slice(0, MAX_TOLD)) log.warn(`endpoints file: entry skipped: ${problem}`);
      if (problems.length > MAX_TOLD) log.warn(`endpoints file: ${problems.length - MAX_TOLD} more entries skipped`);
      // An id whose entry became invalid is not in the list of valid ones, so its endpoint is removed.
      this.#tell(registry.apply(endpoints), warnings);
    } catch (error) {
      log.warn(`endpoints file: Sluice keeps the previous endpoints: ${messageOf(error)}`);
    }
  }

  #tell({ added, removed, refused }: AppliedChange, warnings: readonly string[]): void {
    const { log, path, registry } = this.#options;
    log.info(`endpoints file: ${path}: ${counted(registry.size, "endpoint")}, ${added} added, ${removed} removed`);
    for (const warning of warnings.slice(0, MAX_TOLD)) log.warn(`endpoints file: ${warning}`);
    if (warnings.length > MAX_TOLD)
      log.warn(`endpoints file: ${warnings.length - MAX_TOLD} further warnings about this file`);
    if (refused > 0) log.warn(`endpoints file: ${refused} endpoints refused: more than ${registry.maxEndpoints}`);
  }
}

/** The refusal of a file with wrong entries at a start: DOCUMENT_INVALID. @param problems of `EndpointsFile`, at least one */
export function entriesRefused(problems: readonly string[]): SluiceError {
  if (problems.length === 1) return new SluiceError("DOCUMENT_INVALID", problems[0]!);
  const more = problems.length - MAX_TOLD;
  const lines = [...problems.slice(0, MAX_TOLD), ...(more > 0 ? [`(and ${more} more)`] : [])];
  const heading = `${problems.length} entries of the endpoints file are wrong:`;
  return new SluiceError("DOCUMENT_INVALID", [heading, ...lines].join("\n  "));
}

/** Parameters of both (api-resources 6A.1). */
export const endpointsDiscoveryParameters = z.strictObject({
  path: z
    .string({ error: (issue) => (issue.input === undefined ? "'path' is required" : "'path' must be a string") })
    .min(1, "'path' is required")
    .describe("The endpoints file: YAML or JSON, at most 1 MiB."),
  watchFile: z.boolean().default(false).describe("Follow changes of the file."),
});

export const fileDiscovery = defineDiscovery({
  type: "file-discovery",
  describe: "Takes the endpoints from a file instead of from Kubernetes.",
  parameters: endpointsDiscoveryParameters,
  create: ({ path, watchFile }) => ({ path, watchFile }),
});

/** api-resources 6A.7 */
export const multiclusterFileDiscovery = defineDiscovery({
  type: "multicluster-file-discovery",
  describe:
    "Like file-discovery, for endpoints that represent other clusters. An address can also be IPv6 or a host name. The labels metricsAddress and metricsPort give the host and port of a cluster's metrics page.",
  parameters: endpointsDiscoveryParameters,
  create: ({ path, watchFile }) => ({ path, watchFile, multicluster: true }),
});
