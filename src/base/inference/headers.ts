/**
 * Headers in the order they arrived, repeated ones repeated. Keys are lower case; a value holds one character per byte
 * (latin-1), so every byte sequence survives unchanged.
 */
export class HeaderList {
  readonly keys: string[] = [];
  readonly values: string[] = [];

  /** A list from name-value pairs, for tests and for literals. */
  static of(pairs: Iterable<readonly [string, string]>): HeaderList {
    const list = new HeaderList();
    for (const [key, value] of pairs) list.add(key, value);
    return list;
  }

  get length(): number {
    return this.keys.length;
  }

  /** Appends; the key is lower-cased on storage (epp-protocol 1.1). */
  add(key: string, value: string): void {
    this.keys.push(key.toLowerCase());
    this.values.push(value);
  }

  /** Appends a header whose key is lower case already: that of another list, or a literal. */
  append(key: string, value: string): void {
    this.keys.push(key);
    this.values.push(value);
  }

  /** Removes one header. @param index below `length` */
  removeAt(index: number): void {
    this.keys.splice(index, 1);
    this.values.splice(index, 1);
  }

  /** The last value of a lower-case key, or undefined. */
  get(key: string): string | undefined {
    // Most headers that are asked for are absent, and V8 has a quick search only from front to back.
    const { keys } = this;
    let at = keys.indexOf(key);
    if (at < 0) return undefined;
    for (let next = at; next >= 0; next = keys.indexOf(key, at + 1)) at = next;
    return this.values[at];
  }

  /** Whether the key occurs more than once. */
  isRepeated(key: string): boolean {
    const first = this.keys.indexOf(key);
    return first >= 0 && this.keys.indexOf(key, first + 1) >= 0;
  }
}

/** Names on the wire between proxy and Endpoint Picker (epp-protocol 3.4, 7, 8, 10.8). */
export const HEADER = {
  destination: "x-gateway-destination-endpoint",
  destinationSubset: "x-gateway-destination-endpoint-subset",
  destinationServed: "x-gateway-destination-endpoint-served",
  objective: "x-llm-d-inference-objective",
  objectiveAlias: "x-gateway-inference-objective",
  fairnessId: "x-llm-d-inference-fairness-id",
  fairnessIdAlias: "x-gateway-inference-fairness-id",
  modelRewrite: "x-llm-d-model-name-rewrite",
  modelRewriteAlias: "x-gateway-model-name-rewrite",
  droppedReason: "x-llm-d-request-dropped-reason",
  requestId: "x-request-id",
  debug: "x-went-into-resp-headers",
  explain: "x-sluice-explain",
  decision: "x-sluice-decision",
  decisionReason: "x-sluice-decision-reason",
} as const;

/**
 * Control headers that belong to the protocol: never echoed, and removed from the forwarded request when a client sent
 * them (epp-protocol 3.4; D-26). `content-length` is system-owned too, but is not removed.
 */
export const CONTROL_HEADERS: ReadonlySet<string> = new Set([
  HEADER.fairnessId,
  HEADER.fairnessIdAlias,
  HEADER.objective,
  HEADER.objectiveAlias,
  HEADER.modelRewrite,
  HEADER.modelRewriteAlias,
  HEADER.destination,
  HEADER.destinationSubset,
  HEADER.destinationServed,
  HEADER.droppedReason,
  HEADER.explain,
  "x-slo-ttft-ms",
  "x-slo-tpot-ms",
  "x-llm-d-slo-ttft-ms",
  "x-llm-d-slo-tpot-ms",
  "x-llm-d-video-fps",
  "x-llm-d-video-duration-seconds",
  "x-llm-d-video-resolution",
  "x-prefiller-host-port",
  "x-encoder-hosts-ports",
]);

/** Headers by which a client chooses the priority and the flow of its request. */
export const FLOW_HEADERS: ReadonlySet<string> = new Set([
  HEADER.objective,
  HEADER.objectiveAlias,
  HEADER.fairnessId,
  HEADER.fairnessIdAlias,
]);

/** Headers of one connection, never of the exchange (RFC 9110 7.6.1); `te` is one of them unless it says `trailers`. */
export const HOP_BY_HOP_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** The value of the first of `names` that is present and not blank, without blanks around it; empty counts as absent. */
export function firstHeader(headers: HeaderList, ...names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = withoutBlanks(headers.get(name) ?? "");
    if (value !== "") return value;
  }
  return undefined;
}

/** `:path`, else the header in which a proxy kept it, else the completions path (epp-protocol 10.1). */
export function requestPath(headers: HeaderList): string {
  return headers.get(":path") ?? firstHeader(headers, "x-original-path", "x-forwarded-path") ?? "/v1/completions";
}

/** The path of a request target, without its query. */
export function withoutQuery(target: string): string {
  const query = target.indexOf("?");
  return query < 0 ? target : target.slice(0, query);
}

/** The blanks of RFC 9110 5.6.3 alone: `trim` also removes 0xA0, which is the last byte of many UTF-8 characters. */
export function withoutBlanks(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && isBlank(value.charCodeAt(start))) start++;
  while (end > start && isBlank(value.charCodeAt(end - 1))) end--;
  return value.slice(start, end);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}
