import { execFile } from "node:child_process";
import { expect, it } from "vitest";
import { fixedLimit } from "../../../test/support/slowness.ts";
import { VirtualClock } from "../clock/virtual.ts";
import { silentLogger } from "./logger.ts";
import { startRequestTracing } from "./otel-tracing.ts";

/** Files of OpenTelemetry that a process has loaded once it ran `script`. */
const loadedBy = (script: string) =>
  new Promise<number>((resolve, reject) => {
    const code = `
      import { createRequire } from "node:module";
      const { startRequestTracing } = await import(${url("./otel-tracing.ts")});
      const { realClock } = await import(${url("../clock/real.ts")});
      const { silentLogger } = await import(${url("./logger.ts")});
      ${script}
      console.log(Object.keys(createRequire(import.meta.url).cache).filter((file) => file.includes("opentelemetry")).length);
      process.exit();`;
    execFile(
      process.execPath,
      ["--input-type=module", "-e", code],
      { timeout: fixedLimit(30_000) },
      (error, stdout, stderr) =>
        error === null ? resolve(Number(stdout.trim())) : reject(new Error(`${error.message}\n${stderr}`)),
    );
  });
const url = (file: string) => JSON.stringify(new URL(file, import.meta.url).href);

it("is off without a place for traces, without the flag, and by OTEL_TRACES_EXPORTER=none (scheduling 9.1)", async () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4317" };
  const on = async (wanted: boolean, env: Readonly<Record<string, string>>) => {
    const tracing = await startRequestTracing(wanted, env, new VirtualClock(), silentLogger);
    await tracing.close();
    return tracing.on;
  };
  expect(await on(true, {})).toBe(false);
  expect(await on(false, endpoint)).toBe(false);
  expect(await on(true, { ...endpoint, OTEL_TRACES_EXPORTER: "none" })).toBe(false);
  expect(await on(true, endpoint)).toBe(true);
});

it("loads nothing of OpenTelemetry with the Endpoint Picker and the gateway while it is off", async () => {
  const whole = `await import(${url("../../commands/epp/start.ts")}); await import(${url("../../wires/gateway/gateway.ts")});`;
  const started = (wanted: boolean) =>
    `await startRequestTracing(${wanted}, { OTEL_TRACES_EXPORTER: "console" }, realClock, silentLogger);`;
  expect(await loadedBy(whole + started(false))).toBe(0);
  expect(await loadedBy(started(true))).toBeGreaterThan(0);
});
