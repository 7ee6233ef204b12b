/**
 * Set-up of every test file. Each run tries properties with the same cases, so a red run shows a fault of the change. The soak
 * lane tries new cases, and so does every lane with `SLUICE_SEED=random`. fast-check prints the seed of a failure;
 * `SLUICE_SEED=<that seed>` repeats it.
 */
import fc from "fast-check";

const seed = process.env["SLUICE_SEED"] ?? (process.env["SLUICE_LANE"] === "soak" ? "random" : "1");
if (seed !== "random") {
  if (!/^-?\d+$/.test(seed)) throw new Error(`SLUICE_SEED=${seed}: give a whole number, or random`);
  fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(seed) });
}
