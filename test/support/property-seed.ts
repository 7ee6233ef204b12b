/**
 * Set-up of every test file: properties are tried with the same cases in each run, so that a red run tells of the change and
 * not of the day. The soak lane looks for new cases, as `SLUICE_SEED=random` does anywhere; fast-check names the seed of a
 * failure, and `SLUICE_SEED=<that seed>` repeats it.
 */
import fc from "fast-check";

const seed = process.env["SLUICE_SEED"] ?? (process.env["SLUICE_LANE"] === "soak" ? "random" : "1");
if (seed !== "random") {
  if (!/^-?\d+$/.test(seed)) throw new Error(`SLUICE_SEED=${seed}: give a whole number, or random`);
  fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(seed) });
}
