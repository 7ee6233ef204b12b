import { SluiceError } from "../../../base/inference/errors.ts";
import type { PoolSettings } from "../../brokers/settings.ts";
import type { ConfigDocument } from "./config-document.ts";
import { Findings } from "./findings.ts";
import type { DispatchOptions, ProcessOptions } from "./options.ts";
import { checkPools, defaultPool, readPools } from "./pool-file.ts";
import { readTlsFiles, type TlsPaths } from "./tls-files.ts";
import { readTransport, type TransportContext } from "./transport-file.ts";
import { queueList, type TransportName } from "./transport-schemas.ts";

/** Where each part of a configuration was found, flags and file already weighed against each other. */
export interface DispatchSources extends TransportContext {
  readonly process: ProcessOptions;
  readonly transport: { readonly name: TransportName; readonly document: ConfigDocument };
  /** Undefined: one pool `default` of `concurrency` workers. */
  readonly pools: ConfigDocument | undefined;
  readonly concurrency: number;
  readonly mergePolicy: ConfigDocument | undefined;
  readonly transforms: ConfigDocument | undefined;
  readonly plugins: readonly string[];
  /** Files for TLS towards the gateways. */
  readonly tlsPaths: TlsPaths;
  readonly insecureSkipVerify: boolean;
  /** What messages call such a file. */
  tlsName(which: keyof TlsPaths): string;
}

/**
 * Reads and checks all parts of a configuration.
 * @returns with sentences about what is odd, for the log
 * @throws SluiceError DOCUMENT_INVALID with everything that is wrong, each with its place; TLS_FILE_INVALID
 */
export async function loadDispatchOptions(
  sources: DispatchSources,
): Promise<{ readonly options: DispatchOptions; readonly warnings: readonly string[] }> {
  const findings = new Findings();
  const { name, document } = sources.transport;
  const transport = await readTransport(name, document, sources, findings);
  const pools: readonly PoolSettings[] =
    sources.pools === undefined ? [defaultPool(sources.concurrency)] : readPools(sources.pools, findings);
  if (transport !== undefined && pools.length > 0)
    checkPools(transport.queues, pools, document, queueList(name), findings);
  findings.throwIfAny("dispatch configuration");
  const tlsProblems: string[] = [];
  const tls = await readTlsFiles(sources.tlsPaths, (which, problem) => {
    tlsProblems.push(`${sources.tlsName(which)}: ${problem}`);
  });
  if (tlsProblems.length > 0) throw new SluiceError("TLS_FILE_INVALID", tlsProblems.join("; "));
  return {
    options: {
      ...sources.process,
      // Missing only if something was refused.
      transport: transport!,
      pools,
      mergePolicy: sources.mergePolicy,
      transforms: sources.transforms,
      plugins: sources.plugins,
      clientTls: { ...tls, insecureSkipVerify: sources.insecureSkipVerify },
    },
    warnings: findings.warnings,
  };
}
