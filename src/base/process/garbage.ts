import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";

/** The Node.js release whose V8 was measured and is known to have the flags. Another release would only print a complaint. */
const MEASURED = 26;

/** Bytes of both halves of the young generation, where a picker stops its growth: by default V8 goes on to 48 MiB. */
const YOUNG = 12 << 20;

/** How far the heap of a gateway grows before V8 marks it, in percent of the live data. */
const RARELY = 300;
/** The same for a picker. */
const OFTEN = 50;

/**
 * Makes V8 collect garbage by the memory that the process really holds. By default buffers have a small limit of their own.
 * Large bodies reach it every 50 to 100 ms, and each time V8 marks the whole heap and finds little. With these flags V8 weighs
 * buffers and heap together and lets them grow to four times the live size. Call before traffic comes.
 */
export function collectGarbageRarely(): void {
  if (isMeasured()) weighTogether(RARELY);
}

/**
 * As `collectGarbageRarely`, for a process with little live data that changes slowly: the heap grows to one and a half times the
 * live size. The young generation stops growing as soon as it has 12 MiB. Call at the start, and again when the start is over:
 * V8 reads the flag whenever the young generation would grow.
 */
export function keepHeapSmall(): void {
  if (!isMeasured()) return;
  weighTogether(OFTEN);
  // A limit that the operator gives counts.
  if (`${process.execArgv.join(" ")} ${process.env["NODE_OPTIONS"] ?? ""}`.includes("semi-space")) return;
  const young = getHeapSpaceStatistics().find((space) => space.space_name === "new_space");
  if ((young?.space_size ?? 0) >= YOUNG) setFlagsFromString("--semi-space-growth-factor=1");
}

function isMeasured(): boolean {
  return Number(process.versions.node.split(".")[0]) >= MEASURED;
}

function weighTogether(growth: number): void {
  setFlagsFromString("--external-memory-accounted-in-global-limit");
  setFlagsFromString(`--heap-growing-percent=${growth}`);
}
