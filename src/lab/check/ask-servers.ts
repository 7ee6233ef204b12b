import type { Clock } from "../../base/clock/clock.ts";
import { type AskOptions, askServer, type ServerFacts } from "./server-facts.ts";

/** Servers that are asked at the same time. */
const AT_ONCE = 16;

/** Asks several servers, a few at a time. @returns in the order of `origins` */
export async function askServers(
  origins: readonly string[],
  options: AskOptions,
  clock: Clock,
): Promise<readonly ServerFacts[]> {
  const found: ServerFacts[] = [];
  const left = origins.entries();
  const work = async (): Promise<void> => {
    for (const [place, origin] of left) found[place] = await askServer(origin, options, clock);
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, origins.length) }, work));
  return found;
}
