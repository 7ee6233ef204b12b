import { defineConfig } from "vitest/config";

const lane = process.env["SLUICE_LANE"] ?? "unit";

export default defineConfig({
  test: {
    // One process, no isolation: the unit lane is many small files, and starting a context for each costs more than they do.
    isolate: false,
    include: lane === "unit" ? ["src/**/*.test.ts", "scripts/**/*.test.ts"] : ["test/**/*.test.ts"],
    exclude: lane === "soak" ? [] : ["**/*.soak.test.ts", "**/node_modules/**"],
    fileParallelism: lane === "unit",
    testTimeout: lane === "unit" ? 20_000 : 120_000,
    hookTimeout: lane === "unit" ? 20_000 : 120_000,
  },
});
