import { describe, expect, it } from "vitest";
import { type LogFields, type Logger, silentLogger } from "./logger.ts";
import { traceTargets } from "./otel-environment.ts";

type Row = readonly [env: Readonly<Record<string, string>>, console: boolean, otlp: string | undefined];

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4317" };
const OTLP = { OTEL_TRACES_EXPORTER: "otlp" };

describe("traceTargets (scheduling 9.1)", () => {
  const rows: readonly Row[] = [
    [{}, false, undefined],
    [{ OTEL_TRACES_EXPORTER: " " }, false, undefined],
    [ENDPOINT, false, "http://collector:4317"],
    [{ ...ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://traces:4317" }, false, "http://traces:4317"],
    [{ OTEL_TRACES_EXPORTER: "none", ...ENDPOINT }, false, undefined],
    [{ OTEL_TRACES_EXPORTER: "console" }, true, undefined],
    [{ OTEL_TRACES_EXPORTER: "Console, OTLP", ...ENDPOINT }, true, "http://collector:4317"],
    [{ OTEL_SDK_DISABLED: "TRUE", OTEL_TRACES_EXPORTER: "console" }, false, undefined],
    [OTLP, false, "http://localhost:4317"],
    [{ ...OTLP, OTEL_EXPORTER_OTLP_INSECURE: "false" }, false, "localhost:4317"],
    [{ ...OTLP, OTEL_EXPORTER_OTLP_TRACES_INSECURE: "true" }, false, "localhost:4317"],
    [{ ...OTLP, OTEL_EXPORTER_OTLP_CERTIFICATE: "/ca.pem" }, false, "localhost:4317"],
    [{ ...OTLP, OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY: "/key.pem" }, false, "localhost:4317"],
    [{ ...OTLP, ...ENDPOINT }, false, "http://collector:4317"],
  ];
  it.each(rows)("%o: console %s, OTLP %s", (env, console, otlp) => {
    expect(traceTargets(env, silentLogger)).toEqual({ console, otlp });
  });

  it("logs an exporter it does not know, and uses the others", () => {
    const lines: { fields: LogFields; message: string }[] = [];
    const log: Logger = { ...silentLogger, error: (fields, message) => lines.push({ fields, message }) };
    expect(traceTargets({ OTEL_TRACES_EXPORTER: "zipkin,console" }, log)).toEqual({ console: true, otlp: undefined });
    expect(lines).toEqual([
      {
        fields: { value: "zipkin", known: ["otlp", "console", "none"] },
        message: "OTEL_TRACES_EXPORTER: Sluice ignores an unknown exporter",
      },
    ]);
  });
});
