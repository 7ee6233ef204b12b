/** Nanoseconds of CPU of one call, collector threads included: the best of five rounds of about 60 ms each. */
export function measure(run: () => unknown): number {
  let calls = 1;
  let best = Number.POSITIVE_INFINITY;
  for (let round = -3; round < 5; round++) {
    const started = process.cpuUsage();
    for (let i = 0; i < calls; i++) run();
    const { user, system } = process.cpuUsage(started);
    const spent = Math.max(1, user + system) * 1000;
    // The first rounds warm the code and find how many calls make a round.
    if (round < 0) calls = Math.max(1, Math.round((calls * 60e6) / spent));
    else best = Math.min(best, spent / calls);
  }
  return best;
}
