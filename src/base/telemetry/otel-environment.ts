import type { Logger } from "./logger.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** The targets of spans; without any target nothing is traced. */
export interface TraceTargets {
  /** Printed on stdout. */
  readonly console: boolean;
  /** Sent by OTLP gRPC to this endpoint, as the environment spells it. */
  readonly otlp: string | undefined;
}

const NOWHERE: TraceTargets = { console: false, otlp: undefined };
const EXPORTERS = ["otlp", "console", "none"];
/** The collector of this machine, the default endpoint. */
const LOCAL = "localhost:4317";

/**
 * The targets that `OTEL_TRACES_EXPORTER` and the endpoint variables name (scheduling 9.1). The variable holds `otlp`,
 * `console`, `none` or several of them, separated by commas. An unknown one is logged and left out. Without the variable, spans
 * go to the endpoint, if there is one. The reference prints them when the variable is unset, which is noise for users who never
 * asked for traces.
 */
export function traceTargets(env: Environment, log: Logger): TraceTargets {
  if (textOf(env, "OTEL_SDK_DISABLED")?.toLowerCase() === "true") return NOWHERE;
  const endpoint = otlpVariable(env, "ENDPOINT");
  const wanted = textOf(env, "OTEL_TRACES_EXPORTER");
  if (wanted === undefined) return { console: false, otlp: endpoint };
  const names = wanted.split(",").map((name) => name.trim().toLowerCase());
  for (const name of names)
    if (!EXPORTERS.includes(name))
      log.error({ value: name, known: EXPORTERS }, "OTEL_TRACES_EXPORTER: Sluice ignores an unknown exporter");
  return {
    console: names.includes("console"),
    otlp: names.includes("otlp") ? (endpoint ?? localEndpoint(env)) : undefined,
  };
}

/** A variable of the OTLP exporter. The variable for traces alone wins over the one for all signals. */
export function otlpVariable(env: Environment, name: string): string | undefined {
  return textOf(env, `OTEL_EXPORTER_OTLP_TRACES_${name}`) ?? textOf(env, `OTEL_EXPORTER_OTLP_${name}`);
}

/** Without TLS, unless the environment names certificates or says explicitly that the connection is not insecure. */
function localEndpoint(env: Environment): string {
  const insecure = otlpVariable(env, "INSECURE");
  const certificates = ["CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"];
  const secure = insecure !== undefined || certificates.some((name) => otlpVariable(env, name) !== undefined);
  return secure ? LOCAL : `http://${LOCAL}`;
}

function textOf(env: Environment, name: string): string | undefined {
  return env[name]?.trim() || undefined;
}
