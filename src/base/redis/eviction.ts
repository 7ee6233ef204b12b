/**
 * The policy by which a server may drop keys when its memory is full.
 * @param memory the answer to INFO memory, or "" where there is none
 * @returns undefined: it drops none, or the answer does not say
 */
export function evictionPolicy(memory: string): string | undefined {
  const policy = /^maxmemory_policy:(\S+)/m.exec(memory)?.[1];
  return policy === "noeviction" || /^maxmemory:0\r?$/m.test(memory) ? undefined : policy;
}
