/** Takes all places of a quota in a process of its own and keeps them until it is killed: `address tenant limit window`. */

import { freshRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import { Collected, factory, LogLines, message, OWNER } from "../support/gates/gate-fakes.cases.ts";

const [address, tenant, limit, window] = process.argv.slice(2);
const gate = factory({ clock: realClock, random: freshRandom(), log: new LogLines() }).make(
  { type: "redis-quota", parameters: { address, limit, window, mode: "concurrency" } },
  OWNER,
);
for (let i = 0; i < Number(limit); i++) {
  const verdict = await gate.apply(message({ userid: tenant! }), new Collected());
  if (verdict.kind !== "continue") throw new Error(`place ${i} was not given`);
}
process.stdout.write("holding\n");
// Renewals keep no process alive.
setInterval(() => {}, 60_000);
