import { availableParallelism } from "node:os";
import { defineConfig, type TestProjectConfiguration } from "vitest/config";
import { announceSlowness, fixedLimit, measureSlowness } from "./test/support/slowness.ts";

const lane = process.env["SLUICE_LANE"] ?? "unit";

// Once for the whole run: workers and their child processes read the slowness from the environment.
announceSlowness(await measureSlowness());
const LIMIT_MS = fixedLimit(lane === "unit" ? 20_000 : 120_000);
const COMMON = {
  // No context of its own for each file: the unit lane is many small files, and starting one costs more than they do.
  isolate: false,
  setupFiles: "test/support/property-seed.ts",
  testTimeout: LIMIT_MS,
  hookTimeout: LIMIT_MS,
  expect: { poll: { timeout: fixedLimit(1000) } },
};

const UNIT = ["src/**/*.test.ts", "scripts/**/*.test.ts", "bench/**/*.test.ts", "dashboard/**/*.test.ts"];
const PARTS = ["test/**/*.test.ts"];
const LONG_FORMS = ["**/*.soak.test.ts", "**/node_modules/**"];
/**
 * Files that have the machine to themselves, after all others: they measure times, or start more processes than leave room
 * for a second file on two cores, or take the usual ports.
 */
const ALONE = ["chaos/day", "chaos/end", "chaos/kills", "demo/*", "envoy/failure", "envoy/resets"].map(
  (name) => `test/${name}.test.ts`,
);

/** Most files mostly wait for processes: three files wait as well as one. */
const PROJECTS: TestProjectConfiguration[] = [
  {
    test: {
      ...{ ...COMMON, name: "three at a time", include: PARTS, exclude: [...LONG_FORMS, ...ALONE] },
      ...{ maxWorkers: 3, sequence: { groupOrder: 0 } },
    },
  },
  {
    test: {
      ...{ ...COMMON, name: "alone", include: ALONE, exclude: LONG_FORMS },
      ...{ maxWorkers: 1, sequence: { groupOrder: 1 } },
    },
  },
];

const LANES = {
  // One worker for each processor: the default leaves one idle, which is half of a small machine.
  unit: { ...COMMON, include: UNIT, exclude: LONG_FORMS, maxWorkers: availableParallelism() },
  parts: { projects: PROJECTS, globalSetup: "test/support/compiled.ts" },
  soak: {
    ...{ ...COMMON, include: [...PARTS, "src/**/*.prop.test.ts"], exclude: [] },
    ...{ fileParallelism: false, globalSetup: "test/support/compiled.ts" },
  },
};

if (!Object.hasOwn(LANES, lane)) throw new Error(`SLUICE_LANE=${lane}: there are ${Object.keys(LANES).join(", ")}`);

export default defineConfig({ test: LANES[lane as keyof typeof LANES] });
