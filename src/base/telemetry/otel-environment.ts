import type { Logger } from "./logger.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** Where spans go; neither = nothing is traced. */
export interface TraceTargets {
  /** Printed on stdout. */
  readonly console: boolean;
  /** Sent by OTLP gRPC to this endpoint, as the environment spells it. */
  readonly otlp: string | undefined;
}

const NOWHERE: TraceTargets = { console: false, otlp: undefined };
const EXPORTERS = ["otlp", "console", "none"];
/** The collector of a machine that nothing else was said about. */
const LOCAL = "localhost:4317";

/**
 * What `OTEL_TRACES_EXPORTER` and the endpoint variables say (scheduling 9.1): `otlp`, `console`, `none` or several of
 * them with commas between; one that is not known is logged and left out. Unset, spans go to the endpoint, if there is one:
 * the reference prints them then, which is noise in the logs of whoever never asked for traces.
 */
export function traceTargets(env: Environment, log: Logger): TraceTargets {
  if (textOf(env, "OTEL_SDK_DISABLED")?.toLowerCase() === "true") return NOWHERE;
  const endpoint = otlpVariable(env, "ENDPOINT");
  const wanted = textOf(env, "OTEL_TRACES_EXPORTER");
  if (wanted === undefined) return { console: false, otlp: endpoint };
  const names = wanted.split(",").map((name) => name.trim().toLowerCase());
  for (const name of names)
    if (!EXPORTERS.includes(name))
      log.error({ value: name, known: EXPORTERS }, "OTEL_TRACES_EXPORTER is not known; it is left out");
  return {
    console: names.includes("console"),
    otlp: names.includes("otlp") ? (endpoint ?? localEndpoint(env)) : undefined,
  };
}

/** A variable of the OTLP exporter: the one for traces alone wins over the one for everything. */
export function otlpVariable(env: Environment, name: string): string | undefined {
  return textOf(env, `OTEL_EXPORTER_OTLP_TRACES_${name}`) ?? textOf(env, `OTEL_EXPORTER_OTLP_${name}`);
}

/** Without TLS, unless certificates say that there is some, or somebody said in so many words that it is not insecure. */
function localEndpoint(env: Environment): string {
  const insecure = otlpVariable(env, "INSECURE");
  const certificates = ["CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"];
  const secure = insecure !== undefined || certificates.some((name) => otlpVariable(env, name) !== undefined);
  return secure ? LOCAL : `http://${LOCAL}`;
}

function textOf(env: Environment, name: string): string | undefined {
  return env[name]?.trim() || undefined;
}
