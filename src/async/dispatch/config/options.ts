import { z } from "zod";
import { didYouMean } from "../../../base/document/nearest.ts";
import { knownKeys } from "../../../base/document/validate.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import type { LoggerOptions } from "../../../base/telemetry/logging.ts";
import type { PoolSettings, QueueSettings, TransportSettings } from "../../brokers/settings.ts";
import type { GateCheck } from "../../gates/check-gate.ts";
import { type ClientTls, readTlsFiles, type TlsPaths } from "../send/client-tls.ts";
import { checkGates } from "./check-gates.ts";
import { type ConfigDocument, Findings } from "./config-document.ts";
import { GATE_FIELDS, gateOf, requiredText } from "./fields.ts";
import { type GatewayKeySource, readGatewayKey } from "./gateway-key.ts";
import { queueList, type TransportName } from "./transport-fields.ts";
import { readTransport, type TransportContext } from "./transport-file.ts";

/** Options of the process as a whole; times in milliseconds, sizes in bytes (async-processor 8.1). */
interface ProcessOptions {
  /** The IP address of both ports. */
  readonly bindAddress: string;
  /** Ports: 0 = any free port. */
  readonly healthPort: number;
  readonly metricsPort: number;
  /** Time for one attempt; at least 1. */
  readonly requestTimeout: number;
  readonly drainTimeout: number;
  /** 0 = the backlog is never polled. */
  readonly backlogPollInterval: number;
  /** Absolute, http or https. */
  readonly prometheusUrl: string | undefined;
  /** 0 = no cache. */
  readonly prometheusCacheTtl: number;
  /** True: a gate of an unknown type is open. False: it is an error. */
  readonly allowUnknownGates: boolean;
  /** Header with the milliseconds that are left until the deadline; undefined = none. */
  readonly deadlineHeader: string | undefined;
  /** Longest answer of a gateway that is accepted. */
  readonly maxResponseBytes: number;
  /** Processes that share the capacities, from 1 up: each spends an equal part. */
  readonly replicaCount: number;
  /** True: everyone may read /debug. False: only loopback may. */
  readonly debugOpen: boolean;
  readonly logging: Pick<LoggerOptions, "level" | "encoder" | "time">;
}

/** How `sluice dispatch` runs: flags, files and environment, merged and checked. */
export interface DispatchOptions extends ProcessOptions {
  readonly transport: TransportSettings;
  /** Contains the pool of every queue; ids are unique. */
  readonly pools: readonly PoolSettings[];
  /** `{type, parameters}` (async-processor 6.1), unread; undefined = random-robin. */
  readonly mergePolicy: ConfigDocument | undefined;
  /** `{requestTransforms}` (async-processor 6.6), unread; undefined = none. */
  readonly transforms: ConfigDocument | undefined;
  /** Modules with the user's gates and metric sources: absolute paths of files that exist. */
  readonly plugins: readonly string[];
  /** TLS towards the gateways; the texts were checked. */
  readonly clientTls: ClientTls;
  /** The key that gateways ask for, as a legal header value; undefined = none. */
  readonly gatewayKey: string | undefined;
}

/** The source of each part of a configuration, after flags and file are merged. */
interface DispatchSources extends PartSources {
  readonly process: ProcessOptions;
  readonly mergePolicy: ConfigDocument | undefined;
  readonly transforms: ConfigDocument | undefined;
  readonly plugins: readonly string[];
  /** Files for TLS towards the gateways. */
  readonly tlsPaths: TlsPaths;
  readonly insecureSkipVerify: boolean;
  readonly gatewayKey: GatewayKeySource;
  /** The name of such a file in messages. */
  tlsName(which: keyof TlsPaths): string;
}

/**
 * Reads and checks all parts of a configuration.
 * @returns the options, with warnings for the log
 * @throws SluiceError DOCUMENT_INVALID with every error and its place; TLS_FILE_INVALID
 */
export async function loadDispatchOptions(
  sources: DispatchSources,
): Promise<{ readonly options: DispatchOptions; readonly warnings: readonly string[] }> {
  const findings = new Findings();
  const { transport, pools } = await readParts(sources, findings);
  findings.throwIfAny("dispatch configuration");
  const tlsProblems: string[] = [];
  const tls = await readTlsFiles(sources.tlsPaths, (which, problem) => {
    tlsProblems.push(`${sources.tlsName(which)}: ${problem}`);
  });
  if (tlsProblems.length > 0) throw new SluiceError("TLS_FILE_INVALID", tlsProblems.join("; "));
  return {
    options: {
      ...sources.process,
      // Undefined only when a finding was refused, and then `throwIfAny` throws.
      transport: transport!,
      pools,
      mergePolicy: sources.mergePolicy,
      transforms: sources.transforms,
      plugins: sources.plugins,
      clientTls: { ...tls, insecureSkipVerify: sources.insecureSkipVerify },
      gatewayKey: await readGatewayKey(sources.gatewayKey),
    },
    warnings: findings.warnings,
  };
}

/** The parts of a configuration that its documents hold, apart from merge policy and transforms. */
interface DispatchParts {
  /** Undefined: `findings` has the reason. */
  readonly transport: TransportSettings | undefined;
  readonly pools: readonly PoolSettings[];
}

export interface PartSources extends TransportContext {
  readonly transport: { readonly name: TransportName; readonly document: ConfigDocument };
  /** Undefined: one pool `default` of `concurrency` workers. `elsewhere`: a check of a file cannot know them. */
  readonly pools: ConfigDocument | "elsewhere" | undefined;
  readonly concurrency: number;
  readonly gates: GateCheck;
}

/** Reads transport, worker pools and gates. Connects to nothing. @param findings gets all faults, each with its place */
export async function readParts(sources: PartSources, findings: Findings): Promise<DispatchParts> {
  const { name, document } = sources.transport;
  const transport = await readTransport(name, document, sources, findings);
  const { pools: given } = sources;
  const poolFile = given === "elsewhere" ? undefined : given;
  const pools = poolFile === undefined ? [defaultPool(sources.concurrency)] : readPools(poolFile, findings);
  const list = queueList(name);
  // With a wrong entry it is unknown which pools there are.
  const areKnown = poolFile === undefined || Object.keys(poolFile.value ?? {}).length === pools.length;
  if (transport !== undefined && pools.length > 0 && areKnown && given !== "elsewhere")
    checkPools(transport.queues, pools, document, list, findings);
  // Channels have no gates.
  if (sources.gated && name !== "redis-pubsub") checkGates(document, [list], sources.gates, findings);
  if (poolFile !== undefined) checkGates(poolFile, [], sources.gates, findings);
  return { transport, pools };
}

/** Most workers of one pool: each holds a message and a connection. */
export const MAX_WORKERS = 100_000;
const MAX_POOLS = 1_000;

/** One worker pool (async-processor 6.5). */
export const POOL = z.object({
  id: requiredText.describe("Id of the pool, which queues name in `worker_pool_id`."),
  workers: z.int().min(1).max(MAX_WORKERS).describe("The most requests that the pool has in flight."),
  ...GATE_FIELDS,
});

const SCHEMA = z.array(POOL).min(1).max(MAX_POOLS);

/**
 * Reads worker pools: the content of the reference's `--pool-config-file` (async-processor 6.5). Unknown keys are ignored with
 * a warning.
 */
export function readPools(document: ConfigDocument, findings: Findings): PoolSettings[] {
  const known = knownKeys(SCHEMA, [0]);
  if (Array.isArray(document.value))
    document.value.forEach((entry: unknown, at) => {
      findings.warnOfUnknown(document, [at], entry, known);
    });
  const entries = findings.check(document, SCHEMA);
  const pools = (entries ?? rightEntries(document.value)).flatMap((entry, at) =>
    entry === undefined
      ? []
      : [{ at, pool: { id: entry.id, workers: entry.workers, gate: gateOf(entry, document, [at], findings) } }],
  );
  const seen = new Map<string, number>();
  for (const { at, pool } of pools) {
    const first = seen.get(pool.id);
    if (first === undefined) seen.set(pool.id, at);
    else
      findings.refuse(
        document,
        [at, "id"],
        `duplicate id ${JSON.stringify(pool.id)}; the pool at line ${document.positionOf([first]).line} already has this id`,
      );
  }
  return pools.map(({ pool }) => pool);
}

/** The entries that are right by themselves, so that the faults of others hide none of theirs; undefined in place of a wrong one. */
function rightEntries(value: unknown): readonly (z.output<typeof POOL> | undefined)[] {
  return Array.isArray(value) ? value.map((entry: unknown) => POOL.safeParse(entry).data) : [];
}

/** The pool of a configuration without a pool file: it serves all queues that name none. */
export function defaultPool(workers: number): PoolSettings {
  return { id: "default", workers, gate: undefined };
}

/**
 * Checks queues against pools: every queue needs a pool, and pools without a queue get no workers.
 * @param document that has the queues, in its `list`
 * @param pools not empty
 */
export function checkPools(
  queues: readonly QueueSettings[],
  pools: readonly PoolSettings[],
  document: ConfigDocument,
  list: string,
  findings: Findings,
): void {
  const ids = new Set(pools.map(({ id }) => id));
  const used = new Set(queues.map(({ workerPoolId }) => workerPoolId));
  queues.forEach(({ workerPoolId }, at) => {
    if (ids.has(workerPoolId)) return;
    const there = [...ids].join(", ");
    findings.refuse(
      document,
      [list, at, "worker_pool_id"],
      `there is no worker pool ${JSON.stringify(workerPoolId)}, only ${there}${didYouMean(workerPoolId, ids)}`,
    );
  });
  for (const id of ids)
    if (!used.has(id))
      findings.warn(
        document,
        [list],
        `no queue has the worker_pool_id ${JSON.stringify(id)}: that pool gets no workers`,
      );
}
