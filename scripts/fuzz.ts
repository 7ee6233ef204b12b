/**
 * Fuzzes what reads bytes from outside, and flow control: each target gets inputs mutated from `test/corpus/<target>/` and must
 * never throw, hang, grow, or disagree with its oracle. An input that fails is kept there as `found-*.bin`, which makes it a
 * case of the unit tests; the run then ends with status 1.
 *
 *   node scripts/fuzz.ts --minutes 10 [--target json|sse|grpc|codec|session|flow] [--seed 1]
 *
 * The minutes are those of each target; without `--target` all run, one after the other.
 */
import { parseArgs } from "node:util";
import { freshRandom } from "../src/base/clock/random.ts";
import { keep } from "./fuzz/corpus.ts";
import { fuzz } from "./fuzz/run.ts";
import { TARGETS } from "./fuzz/targets/index.ts";

const { values } = parseArgs({
  options: { minutes: { type: "string", default: "1" }, target: { type: "string" }, seed: { type: "string" } },
});
const minutes = Number(values.minutes);
const seed = values.seed === undefined ? freshRandom().below(2 ** 32) : Number(values.seed);
const names = TARGETS.map(({ name }) => name).filter((name) => values.target === undefined || name === values.target);
if (!(minutes > 0) || !Number.isInteger(seed) || names.length === 0) {
  const targets = TARGETS.map(({ name }) => name).join(", ");
  console.error(`usage: node scripts/fuzz.ts [--minutes N] [--target NAME] [--seed N]; targets: ${targets}`);
  process.exit(2);
}

for (const name of names) {
  console.log(`${name}: ${minutes} min, seed ${seed}`);
  const result = await fuzz(name, { seed, milliseconds: minutes * 60_000 }, ({ runs, outcomes, pool }) => {
    console.log(`${name}: ${runs} inputs, ${outcomes} outcomes, ${pool} in the pool`);
  });
  if (result.failure === undefined) {
    console.log(`${name}: ok, ${result.runs} inputs, ${result.outcomes} outcomes`);
    continue;
  }
  console.error(`${name}: FAILED after ${result.runs} inputs: ${result.failure.message}`);
  console.error(`${name}: kept as ${keep(name, result.failure.input)}`);
  process.exitCode = 1;
}
