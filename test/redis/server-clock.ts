/** Milliseconds by which the clock that the scripts see is ahead of the server's. */
const CLOCK_AHEAD = "test:clock-ahead";

type ScriptModule = typeof import("../../src/base/redis/script.ts");

/**
 * What a test puts in the place of `src/base/redis/script.ts`: nobody can set the clock of a server that runs, so
 * its scripts look at another one, which {@link setAhead} sets.
 */
export function scriptsOnAClockAhead({ redisScript, readScript }: ScriptModule): Pick<ScriptModule, "readScript"> {
  return {
    readScript: (...files) =>
      redisScript(`
local function clock()
  local t = redis.call('TIME')
  local ahead = tonumber(redis.call('GET', '${CLOCK_AHEAD}') or '0')
  return { string.format('%.0f', t[1] + ahead / 1000), t[2] }
end
${readScript(...files).source.replaceAll("redis.call('TIME')", "clock()")}`),
  };
}

/** Sends a command of Redis. */
type Send = (command: readonly string[]) => Promise<unknown>;

/** By how many milliseconds the clock of the scripts is ahead. */
export async function clockAhead(send: Send): Promise<number> {
  return Number((await send(["GET", CLOCK_AHEAD])) ?? 0);
}

/** Sets the clock of the scripts. @param ms ahead of the server's; whole seconds */
export async function setAhead(send: Send, ms: number): Promise<void> {
  await send(["SET", CLOCK_AHEAD, String(ms)]);
}
