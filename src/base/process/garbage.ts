import { setFlagsFromString } from "node:v8";

/** The release whose V8 was measured and is known to have the flags; an unknown one would only print a complaint. */
const MEASURED = 26;

/**
 * Makes V8 collect garbage by what the process really holds. By default buffers have a small limit of their own, which
 * large bodies reach every 50 to 100 ms, and each time the whole heap is marked though there is little to find; and the
 * heap may grow by about half between two such marks. Weighed together, and allowed to grow to four times what is live
 * (a picker lives on 25 MB), `bench/extproc` spends a third less CPU on a 400 KB prompt. Call before traffic comes.
 */
export function collectGarbageRarely(): void {
  if (Number(process.versions.node.split(".")[0]) < MEASURED) return;
  setFlagsFromString("--external-memory-accounted-in-global-limit");
  setFlagsFromString("--heap-growing-percent=300");
}
