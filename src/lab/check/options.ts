import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { HOP_BY_HOP_HEADERS } from "../../base/inference/headers.ts";
import { ENGINES, type EngineMapping } from "../../pool/endpoints/dialects/engines.ts";
import { parseSpecification } from "../../pool/endpoints/dialects/specification.ts";

/** Metric specifications (scheduling 1.4) that replace those of the engine; undefined = the engine's. */
export interface MetricNames {
  readonly queued?: string | undefined;
  readonly running?: string | undefined;
  readonly kvUsage?: string | undefined;
  readonly lora?: string | undefined;
  readonly cacheInfo?: string | undefined;
}

/** The settings of a check. */
export interface CheckOptions {
  /** `http://host:port`, as `parseTarget` returns it. */
  readonly origin: string;
  /** Begins with a slash. */
  readonly metricsPath: string;
  /** Name of a built-in engine; undefined = the engine whose metrics the page shows. */
  readonly engine: string | undefined;
  readonly metricNames: MetricNames;
  /** Undefined = the first of the model list. */
  readonly model: string | undefined;
  /** Name of a LoRA adapter; undefined = the first adapter of the model list, if any. */
  readonly lora: string | undefined;
  /** Sent with every request; their values are never shown. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Milliseconds per request. */
  readonly timeout: number;
  /** Sends no request that makes the model work. */
  readonly skipGeneration: boolean;
}

/**
 * The origin of a model server from a person's input: `http://host:port`, `host:port`, also with `/v1` behind it.
 * @throws SluiceError FLAG_VALUE; the message holds no credentials
 */
export function parseTarget(text: string): string {
  const written = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  const url = URL.parse(written);
  // A text that is not a URL may still contain a password.
  const shown = text.includes("@") ? "the URL" : `the URL ${JSON.stringify(text.slice(0, 200))}`;
  if (url === null || !/^https?:$/.test(url.protocol) || url.hostname === "")
    throw new SluiceError(
      "FLAG_VALUE",
      `${shown} is not the address of a server; write for example http://10.0.0.7:8000`,
    );
  if (url.username !== "" || url.password !== "")
    throw new SluiceError("FLAG_VALUE", "the URL holds credentials; give them with --header 'Authorization: ...'");
  if (!/^\/(v1\/?)?$/.test(url.pathname) || url.search !== "" || url.hash !== "")
    throw new SluiceError(
      "FLAG_VALUE",
      `${shown} has a path; proxies send /v1/... to the server as it is, so give the address alone, ${url.origin}`,
    );
  return url.origin;
}

/**
 * A header from `Name: value`.
 * @throws SluiceError FLAG_VALUE; the message does not hold the value, which may be secret
 */
export function parseHeader(text: string): readonly [name: string, value: string] {
  const colon = text.indexOf(":");
  const name = text.slice(0, colon).trim();
  const value = text.slice(colon + 1).trim();
  if (colon < 1 || !/^[!#$%&'*+.^_`|~0-9a-zA-Z-]+$/.test(name) || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
    throw new SluiceError("FLAG_VALUE", "a --header does not have the form 'Name: value' in printable characters");
  const key = name.toLowerCase();
  if (HOP_BY_HOP_HEADERS.has(key) || key === "content-length" || key === "content-type" || key === "expect")
    throw new SluiceError("FLAG_VALUE", `--header ${name} cannot be set: it belongs to the connection or to the body`);
  return [name, value];
}

/** @throws SluiceError FLAG_VALUE */
export function parseMetricsPath(text: string): string {
  if (/^\/[\x21-\x7e]*$/.test(text) && !text.startsWith("//")) return text;
  throw new SluiceError(
    "FLAG_VALUE",
    `--metrics-path is ${JSON.stringify(text.slice(0, 200))}; it must begin with one slash`,
  );
}

/** @throws SluiceError FLAG_VALUE for an unknown engine */
export function engineNamed(name: string): EngineMapping {
  const found = ENGINES.find((engine) => engine.name === name);
  if (found !== undefined) return found;
  const known = ENGINES.map((engine) => engine.name).join(", ");
  throw new SluiceError(
    "FLAG_VALUE",
    `--engine ${JSON.stringify(name.slice(0, 200))} is not known; known are ${known}`,
  );
}

/**
 * The mapping of an engine with the metric names of the user.
 * @throws SluiceError FLAG_VALUE
 */
export function withNames(engine: EngineMapping, names: MetricNames): EngineMapping {
  const given = Object.entries(names).filter((entry): entry is [string, string] => entry[1] !== undefined);
  for (const [, specification] of given) {
    try {
      parseSpecification(specification);
    } catch (error) {
      throw new SluiceError("FLAG_VALUE", messageOf(error));
    }
  }
  const { kvUsageBefore, ...rest } = engine;
  const former = names.kvUsage === undefined && kvUsageBefore !== undefined ? { kvUsageBefore } : {};
  const labels = names.cacheInfo === undefined ? {} : { blockSizeLabel: "block_size", blocksLabel: "num_gpu_blocks" };
  return { ...rest, ...former, ...labels, ...Object.fromEntries(given) };
}
