import { totalmem } from "node:os";
import { getHeapStatistics } from "node:v8";
import type { Logger } from "../telemetry/logger.ts";

const MIB = 1024 * 1024;

/** The least memory limit in bytes: an idle process needs most of it. */
export const LEAST_MEMORY = 192 * MIB;

/** Bytes of an idle process after its start: Node.js, compiled code, and the heap (ADR 34). */
const IDLE = 160 * MIB;

/** Parts of what an idle process leaves. The rest is for the heap under load, and for sockets. */
const SHARE = { index: 0.35, bodies: 0.25, smallBodies: 0.0625 } as const;

/** Percent of `MemoryPlan.heapGrowth`, by the least memory limit that has it (ADR 34). */
const GROWTH = [
  { from: 1024 * MIB, percent: 300 },
  { from: 512 * MIB, percent: 100 },
  { from: 0, percent: 50 },
] as const;

/** What a process does with its memory. Sizes in bytes; Infinity = no limit of its own. */
export interface MemoryPlan {
  readonly limit: number;
  /** How far the heap grows before V8 marks it, in percent of the live data. */
  readonly heapGrowth: number;
  /** The most that one index of prompts takes. */
  readonly index: number;
  /** The most for each part of the byte budget. */
  readonly bodies: number;
  readonly smallBodies: number;
}

/**
 * Divides the memory of a process.
 * @param limit bytes; less than `LEAST_MEMORY` counts as that. Infinity = no limit: every part has its default size
 */
export function memoryPlan(limit: number): MemoryPlan {
  const rest = Math.max(limit, LEAST_MEMORY) - IDLE;
  return {
    limit,
    heapGrowth: GROWTH.find(({ from }) => limit >= from)!.percent,
    index: Math.floor(SHARE.index * rest),
    bodies: Math.floor(SHARE.bodies * rest),
    smallBodies: Math.floor(SHARE.smallBodies * rest),
  };
}

/** The plan of a process without a memory limit. */
export const UNLIMITED: MemoryPlan = memoryPlan(Number.POSITIVE_INFINITY);

/**
 * The plan for a memory limit.
 * @param given bytes; 0 = no limit, undefined = the limit of the cgroup counts
 * @param cgroup as `cgroupMemory` returns it
 */
export function memoryPlanOf(given: number | undefined, cgroup: number): MemoryPlan {
  return memoryPlan(given === 0 ? Number.POSITIVE_INFINITY : (given ?? cgroup));
}

/**
 * The bytes that the cgroup of this process allows; Infinity = it has no limit.
 * @param constrained the answer of Node.js: 0, or more than the machine has, where there is no limit
 * @param machine bytes of the machine
 */
export function cgroupMemory(constrained: number = process.constrainedMemory(), machine: number = totalmem()): number {
  return constrained > 0 && constrained < machine ? constrained : Number.POSITIVE_INFINITY;
}

/** Logs the plan of a process with a memory limit. @param heap the most bytes that V8 gives the heap */
export function reportMemory(plan: MemoryPlan, log: Logger, heap: number = getHeapStatistics().heap_size_limit): void {
  const { limit, heapGrowth, index, bodies, smallBodies } = plan;
  if (limit === Number.POSITIVE_INFINITY) return;
  const fields = {
    limit: mib(limit),
    index: mib(index),
    bodies: mib(bodies),
    smallBodies: mib(smallBodies),
    heapGrowth,
  };
  log.info(fields, "the process has a memory limit, which caps the default sizes: see index, bodies and smallBodies");
  if (limit < LEAST_MEMORY)
    log.warn(
      {},
      `the memory limit is ${mib(limit)}, less than ${mib(LEAST_MEMORY)}: the system may end the process under load`,
    );
  else if (heap > limit)
    log.warn(
      {},
      `the heap may grow to ${mib(heap)}, above the memory limit of ${mib(limit)}; set NODE_OPTIONS=--max-old-space-size=${Math.floor((0.6 * limit) / MIB)}`,
    );
}

function mib(bytes: number): string {
  return `${Math.floor(bytes / MIB)} MiB`;
}
