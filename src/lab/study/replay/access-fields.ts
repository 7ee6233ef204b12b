import { didYouMean } from "../../../base/document/nearest.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import { type AccessEntry, durationIn, numberIn, pathIn, requestLineIn, textIn, timeIn } from "./access-entry.ts";

/**
 * The names of each value in JSON access logs, the likelier first: members, or paths of members with points between them. They
 * are the names of Envoy (typical `json_format`, and Istio's), nginx, Traefik, OpenTelemetry's conventions and Elastic's
 * schema.
 */
const NAMES = {
  /** Time of arrival of the request. */
  start: ["start_time", "startTime", "StartUTC", "StartLocal", "request_start", "arrival", "started_at"],
  /** Time of the entry, which is the end of the answer. */
  end: ["end_time", "@timestamp", "timestamp", "time", "ts", "time_iso8601", "time_local", "msec"],
  /** Milliseconds, unless the text names its unit. */
  duration: ["duration", "duration_ms", "latency_ms", "response_time_ms", "total_time_ms"],
  duration_s: ["request_time", "duration_s", "duration_seconds", "latency_s"],
  duration_ns: ["Duration", "event.duration", "duration_ns"],
  /** Method and path together, such as `POST /v1/completions HTTP/1.1`. */
  request: ["request", "request_line"],
  method: [
    "method",
    "request_method",
    "RequestMethod",
    "http.request.method",
    "http_method",
    "request.method",
    "http.method",
  ],
  path: [
    ...["x_envoy_original_path", "x-envoy-original-path", "path", "request_path", "RequestPath", "uri", "request_uri"],
    ...["url.path", "url.original", "http.target", "request.uri", "request.path", "url"],
  ],
  status: [
    ...["response_code", "status", "status_code", "DownstreamStatus", "http.response.status_code"],
    ...["http.status_code", "response.status"],
  ],
  bytes_received: [
    ...["bytes_received", "request_length", "request_size", "RequestContentSize", "http.request.body.bytes"],
    ...["http.request.body.size", "request_bytes", "bytes_in"],
  ],
  bytes_sent: [
    ...["bytes_sent", "body_bytes_sent", "response_size", "DownstreamContentSize", "http.response.body.bytes"],
    ...["http.response.body.size", "response_bytes", "bytes_out", "size"],
  ],
  content_type: [
    ...["response_content_type", "resp_content_type", "sent_http_content_type", "downstream_Content-Type"],
    ...["content_type", "content-type"],
  ],
  upstream: [
    "upstream_host",
    "upstream_addr",
    "upstream",
    "ServiceAddr",
    "upstream.address",
    "server.address",
    "endpoint",
  ],
  model: [
    ...["model", "model_name", "requested_model", "gen_ai.request.model", "x-gateway-model-name", "request_model"],
    ...["target_model", "llm.model"],
  ],
  session: [
    ...["session_id", "session", "x_session_id", "x-session-id", "X-Session-Id", "sessionId", "session.id"],
    ...["conversation_id", "gen_ai.conversation.id", "chat_id", "thread_id"],
  ],
  tenant: [
    ...["fairness_id", "x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id", "tenant", "tenant_id"],
    ...["user_id", "user", "x_user_id", "x-user-id", "user.id", "client_id", "remote_user"],
  ],
  prompt_tokens: [
    ...["prompt_tokens", "input_tokens", "usage.prompt_tokens", "usage.input_tokens", "gen_ai.usage.input_tokens"],
    ...["llm_input_token", "num_prompt_tokens"],
  ],
  output_tokens: [
    ...["completion_tokens", "output_tokens", "usage.completion_tokens", "usage.output_tokens"],
    ...["gen_ai.usage.output_tokens", "llm_output_token", "num_generation_tokens"],
  ],
} as const satisfies Readonly<Record<string, readonly string[]>>;

/** The most characters of an entry that a message repeats. */
const MAX_REPEATED = 40;

type FieldName = keyof typeof NAMES;

/** Names of the readable fields of an access log, for help. */
const ACCESS_FIELDS: readonly string[] = Object.keys(NAMES);

/** The names of each field, each as a path of members. */
type Names = Readonly<Record<FieldName, readonly (readonly string[])[]>>;

type Value = Readonly<Record<string, unknown>>;

/** Reads the fields that a replay needs from JSON entries. */
export class AccessFields {
  readonly #names: Names;
  readonly #given: ReadonlySet<FieldName>;

  /**
   * @param given the places of fields that differ from the usual names, as `name=path.of.members`
   * @throws SluiceError FLAG_VALUE
   */
  constructor(given: readonly string[] = []) {
    const own = new Map(given.map(fieldOf));
    const names = Object.entries(NAMES) as [FieldName, readonly string[]][];
    this.#given = new Set(own.keys());
    this.#names = Object.fromEntries(
      names.map(([field, usual]) => [
        field,
        (own.has(field) ? [own.get(field)!] : usual).map((name) => [name, ...name.split(".")]),
      ]),
    ) as unknown as Names;
  }

  /** @returns the missing fields as text when the value is not an entry of an access log */
  entry(value: Value): AccessEntry | string {
    const line = this.#first("request", value, requestLineIn);
    const method = this.#first("method", value, textIn) ?? line?.method;
    const target = this.#first("path", value, textIn);
    const path = target === undefined ? line?.path : pathIn(target);
    if (method === undefined) return this.#lacks("method", "request");
    if (path === undefined) return this.#lacks("path", "request");
    const start = this.#first("start", value, timeIn);
    const end = this.#first("end", value, timeIn);
    if (start === undefined && end === undefined) return this.#notTime(value) ?? this.#lacks("start", "end");
    const type = this.#first("content_type", value, textIn);
    // nginx lists every server that it tried; the last one answered.
    const upstream = this.#first("upstream", value, textIn)
      ?.split(/[,\s]+/)
      .at(-1);
    return {
      ...{ start, end, path, upstream },
      method: method.toUpperCase(),
      durationMs:
        this.#first("duration", value, (found) => durationIn(found, isCaddys(value) ? 1000 : 1)) ??
        this.#first("duration_s", value, (found) => durationIn(found, 1000)) ??
        this.#first("duration_ns", value, (found) => durationIn(found, 1e-6)),
      status: this.#first("status", value, numberIn),
      bytesReceived: this.#first("bytes_received", value, numberIn),
      bytesSent: this.#first("bytes_sent", value, numberIn),
      streamed: type === undefined ? undefined : /event-stream|ndjson/i.test(type),
      model: this.#first("model", value, textIn),
      session: this.#first("session", value, textIn),
      tenant: this.#first("tenant", value, textIn),
      promptTokens: this.#first("prompt_tokens", value, numberIn),
      outputTokens: this.#first("output_tokens", value, numberIn),
    };
  }

  #first<T>(field: FieldName, value: Value, read: (found: unknown) => T | undefined): T | undefined {
    for (const [name, ...path] of this.#names[field]) {
      // A name with points may be a single member, too.
      const found = read(member(value, name!) ?? (path.length > 1 ? path.reduce<unknown>(member, value) : undefined));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** The problem as text when the field of a time holds no time; undefined when the field is absent. */
  #notTime(value: Value): string | undefined {
    const found = this.#first("start", value, textIn) ?? this.#first("end", value, textIn);
    return found === undefined ? undefined : `no start: ${JSON.stringify(found.slice(0, MAX_REPEATED))} is not a time`;
  }

  #lacks(...fields: readonly FieldName[]): string {
    const named = fields.find((field) => this.#given.has(field));
    if (named !== undefined) return `its ${named} is not at ${this.#names[named][0]![0]}`;
    const usual = fields.flatMap((field) => this.#names[field].map(([name]) => name));
    return `no ${fields[0]}: the line has none of ${usual.join(", ")}; name the place of the value with --field ${fields[0]}=path`;
  }
}

/** Caddy writes seconds under the name that others use for milliseconds. */
function isCaddys({ ts, request }: Value): boolean {
  return typeof ts === "number" && typeof request === "object" && request !== null;
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name) ? (value as Value)[name] : undefined;
}

/** @throws SluiceError FLAG_VALUE */
function fieldOf(text: string): [FieldName, string] {
  const at = text.indexOf("=");
  const name = text.slice(0, Math.max(0, at)).trim();
  const path = text.slice(at + 1).trim();
  const shown = JSON.stringify(text.slice(0, 100));
  if (at < 0 || path === "")
    throw new SluiceError("FLAG_VALUE", `--field ${shown} must be name=path, such as session=request.headers.x-chat`);
  if (Object.hasOwn(NAMES, name)) return [name as FieldName, path];
  const hint = didYouMean(name, ACCESS_FIELDS) || `; there are ${ACCESS_FIELDS.join(", ")}`;
  throw new SluiceError("FLAG_VALUE", `--field ${shown} is not a field of an access log${hint}`);
}
