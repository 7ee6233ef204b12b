import { setFlagsFromString } from "node:v8";

/** The release whose V8 was measured and is known to have the flag; an unknown one would only print a complaint. */
const MEASURED = 26;

/**
 * Tells V8 to weigh buffers with the heap instead of by a limit of their own. That limit makes it mark the whole heap
 * every 50 to 100 ms while large bodies pass, though there is nothing to find: `bench/extproc` spends a third less CPU on
 * a 400 KB prompt with it. Call before traffic comes.
 */
export function weighBuffersWithTheHeap(): void {
  if (Number(process.versions.node.split(".")[0]) >= MEASURED)
    setFlagsFromString("--external-memory-accounted-in-global-limit");
}
