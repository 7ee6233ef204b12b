import { type Document, formatPath, formatPosition, type Path } from "../../base/document/document.ts";
import { isObject } from "../../base/document/json-object.ts";
import { didYouMean, nearest } from "../../base/document/nearest.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { type EndpointsFlavour, normaliseAddress, portOf, readAddress } from "./address.ts";
import { type EndpointSpec, endpointId, type MetricsHost } from "./pool-endpoint.ts";
import { statedModels, wrongModels } from "./served-models.ts";

/** The content of an endpoints file. */
export interface EndpointsFile {
  /** The valid entries in the order of the file; duplicate ids are still included. */
  readonly endpoints: readonly EndpointSpec[];
  /** One sentence per invalid entry, each beginning with `file:line:column: `. */
  readonly problems: readonly string[];
  /**
   * One sentence per unknown key, per valid entry that repeats another's id or address, or one when the file lists no endpoint. Each
   * begins with `file:line:column: `.
   */
  readonly warnings: readonly string[];
}

/** Longest name or namespace, in characters, as in Kubernetes. */
export const MAX_NAME = 253;
/** The form of a name or a namespace. The id is namespace/name: a slash in either would let two endpoints share one. */
export const NAME_FORM = /^[^\s/\p{Cc}]+$/u;

/** The keys of an entry. */
const ENTRY_KEYS: readonly string[] = ["name", "namespace", "address", "port", "scheme", "labels", "models"];
/** The most different unknown keys that are told. */
const MAX_UNKNOWN = 20;

/** Labels by which an endpoint of another cluster names the place of its metrics page (api-resources 6A.7). */
const METRICS_LABELS = { address: "metricsAddress", port: "metricsPort" } as const;

/**
 * The endpoints in a document (api-resources 6A.2): top key `endpoints`. An unknown key has no effect, and a warning tells it.
 * @throws SluiceError DOCUMENT_INVALID when the document has no list of endpoints
 */
export function endpointsOf(document: Document, flavour: EndpointsFlavour): EndpointsFile {
  const endpoints: EndpointSpec[] = [];
  const indices: number[] = [];
  const problems: string[] = [];
  for (const [i, entry] of listOf(document).entries()) {
    const spec = new EntryReader(document, i, entry, flavour).read();
    if (typeof spec === "string") problems.push(spec);
    else {
      endpoints.push(spec);
      indices.push(i);
    }
  }
  const warnings = [...unknownKeys(document), ...repetitions(document, endpoints, indices)];
  if (endpoints.length + problems.length === 0)
    warnings.push(
      `${formatPosition(document.positionOf(["endpoints"]))}: the file lists no endpoints; until it lists one, requests get 503, or wait if flow control is on`,
    );
  return { endpoints, problems, warnings };
}

/** Sentences about keys without an effect, one for each key, at its first place. */
function unknownKeys(document: Document): string[] {
  const { value } = document as { value: Mapping };
  const warnings = Object.keys(value)
    .filter((key) => key !== "endpoints")
    .map((key) => unknownKey(document, [key], ["endpoints"]));
  const seen = new Map<string, { readonly path: Path; count: number }>();
  for (const [i, entry] of listOf(document).entries()) {
    if (!isObject(entry)) continue;
    for (const key of Object.keys(entry)) {
      if (ENTRY_KEYS.includes(key)) continue;
      const before = seen.get(key);
      if (before !== undefined) before.count++;
      else if (seen.size < MAX_UNKNOWN) seen.set(key, { path: ["endpoints", i, key], count: 1 });
    }
  }
  for (const { path, count } of seen.values())
    warnings.push(unknownKey(document, path, ENTRY_KEYS) + (count > 1 ? ` (in ${count} entries)` : ""));
  return warnings.slice(0, MAX_UNKNOWN);
}

function unknownKey(document: Document, path: Path, known: readonly string[]): string {
  const key = String(path.at(-1)).slice(0, MAX_NAME);
  const place = formatPosition(document.positionOf(path));
  return `${place}: ${formatPath(path)}: unknown key \`${key}\` has no effect${didYouMean(key, known)}`;
}

/**
 * Sentences about entries that are allowed but probably a mistake: an id listed again (the last entry counts), one address
 * under several ids (a server that gets several shares).
 * @param indices position of each endpoint in the document's list
 */
function repetitions(document: Document, endpoints: readonly EndpointSpec[], indices: readonly number[]): string[] {
  const place = (at: number) => document.positionOf(["endpoints", indices[at]!]);
  const warnings: string[] = [];
  const last = new Map<string, number>();
  for (const [at, spec] of endpoints.entries()) {
    const id = endpointId(spec);
    const before = last.get(id);
    last.set(id, at);
    if (before === undefined) continue;
    const again = `endpoint ${id} is listed again at line ${place(at).line}; Sluice uses the last entry`;
    warnings.push(`${formatPosition(place(before))}: ${again}`);
  }
  const servers = new Map<string, number>();
  for (const [at, spec] of endpoints.entries()) {
    const id = endpointId(spec);
    if (last.get(id) !== at) continue;
    const address = normaliseAddress(spec.address);
    const server = `${address.includes(":") ? `[${address}]` : address}:${spec.port}`;
    const before = servers.get(server);
    servers.set(server, at);
    if (before === undefined) continue;
    const both = `endpoints ${endpointId(endpoints[before]!)} and ${id} (line ${place(at).line})`;
    warnings.push(
      `${formatPosition(place(before))}: ${both} have the same address ${server}: this server gets the traffic of both`,
    );
  }
  return warnings;
}

function listOf(document: Document): readonly unknown[] {
  const { value } = document;
  if (!isObject(value)) throw notEndpoints(document, [], "the file must be a mapping with the key `endpoints`");
  if (!Object.hasOwn(value, "endpoints"))
    throw notEndpoints(document, [], `the key \`endpoints\` is missing${writtenAs("endpoints", value)}`);
  const list = value.endpoints;
  // `endpoints:` without a value is how YAML writes an empty list by accident or habit: zero endpoints are fine.
  if (list === null) return [];
  if (!Array.isArray(list)) throw notEndpoints(document, ["endpoints"], "`endpoints` must be a list");
  return list;
}

function notEndpoints(document: Document, path: Path, problem: string): SluiceError {
  return new SluiceError("DOCUMENT_INVALID", `${formatPosition(document.positionOf(path))}: ${problem}`);
}

/** Reads one entry. Its problem is the first violation. */
class EntryReader {
  readonly #document: Document;
  readonly #path: Path;
  readonly #entry: unknown;
  readonly #flavour: EndpointsFlavour;
  #problem: string | undefined;

  constructor(document: Document, index: number, entry: unknown, flavour: EndpointsFlavour) {
    this.#document = document;
    this.#path = ["endpoints", index];
    this.#entry = entry;
    this.#flavour = flavour;
  }

  /** @returns the endpoint, or the sentence that describes its violation */
  read(): EndpointSpec | string {
    const entry = this.#entry;
    if (!isObject(entry)) return this.#says([], "must be a mapping with name, address and port");
    const name = this.#name(entry, "name");
    const namespace = this.#name(entry, "namespace", "default");
    const address = this.#address(entry);
    const port = this.#port(entry);
    const scheme = this.#scheme(entry);
    const labels = this.#labels(entry);
    const metricsHost = this.#flavour === "multicluster" ? this.#metricsHost(labels, port) : undefined;
    const models = this.#models(entry);
    const spec = { namespace, name, address, port, ...(scheme === undefined ? {} : { scheme }), rank: 0, labels };
    const located = metricsHost === undefined ? spec : { ...spec, metricsHost };
    return this.#problem ?? (models === undefined ? located : { ...located, models: statedModels(models) });
  }

  #name(entry: Mapping, key: string, fallback?: string): string {
    const value = entry[key];
    if (fallback !== undefined && (value === undefined || value === null || value === "")) return fallback;
    if (!this.#has(entry, key)) return "";
    if (typeof value !== "string") return this.#wrong([key], "must be a string; put it in quotes");
    if (value.length > MAX_NAME) return this.#wrong([key], `must not be longer than ${MAX_NAME} characters`);
    if (!NAME_FORM.test(value)) return this.#wrong([key], "must not be empty or hold blanks or slashes");
    return value;
  }

  #address(entry: Mapping): string {
    if (!this.#has(entry, "address")) return "";
    return this.#host(["address"], entry.address);
  }

  #host(path: Path, value: unknown): string {
    if (typeof value !== "string") return this.#wrong(path, "must be a string");
    const read = readAddress(value, this.#flavour);
    return "problem" in read ? this.#wrong(path, read.problem) : read.address;
  }

  #metricsHost(labels: Readonly<Record<string, string>>, servingPort: number): MetricsHost | undefined {
    if (!Object.hasOwn(labels, METRICS_LABELS.address)) return undefined;
    const address = this.#host(["labels", METRICS_LABELS.address], labels[METRICS_LABELS.address]);
    if (!Object.hasOwn(labels, METRICS_LABELS.port)) return { address, port: servingPort };
    return { address, port: this.#number(["labels", METRICS_LABELS.port], labels[METRICS_LABELS.port]) };
  }

  #port(entry: Mapping): number {
    if (!this.#has(entry, "port")) return 0;
    return this.#number(["port"], entry.port);
  }

  #scheme({ scheme }: Mapping): "http" | "https" | undefined {
    if (scheme === undefined || scheme === "http" || scheme === "https") return scheme;
    this.#wrong(["scheme"], `must be http or https, not ${JSON.stringify(scheme)}`);
    return undefined;
  }

  #number(path: Path, value: unknown): number {
    const port =
      typeof value === "string" ? portOf(value) : Number.isInteger(value) ? portOf(String(value)) : undefined;
    if (port === undefined) this.#wrong(path, `must be an integer from 1 to 65535, not ${JSON.stringify(value)}`);
    return port ?? 0;
  }

  #labels(entry: Mapping): Readonly<Record<string, string>> {
    const value = entry.labels;
    if (value === undefined || value === null) return {};
    if (!isObject(value)) {
      this.#wrong(["labels"], "must be a mapping of strings");
      return {};
    }
    for (const [key, label] of Object.entries(value))
      if (typeof label !== "string") this.#wrong(["labels", key], "must be a string; put it in quotes");
    return value as Record<string, string>;
  }

  #models({ models }: Mapping): readonly string[] | undefined {
    if (models === undefined) return undefined;
    const wrong = wrongModels(models);
    if (wrong === undefined) return models as readonly string[];
    this.#wrong(["models", ...wrong.at], wrong.problem);
    return undefined;
  }

  #has(entry: Mapping, key: string): boolean {
    if (entry[key] !== undefined && entry[key] !== null) return true;
    this.#problem ??= this.#says([], `the key \`${key}\` is missing${writtenAs(key, entry)}`);
    return false;
  }

  #wrong(path: Path, what: string): string {
    this.#problem ??= this.#says(path, what);
    return "";
  }

  #says(path: Path, what: string): string {
    const full = [...this.#path, ...path];
    return `${formatPosition(this.#document.positionOf(full))}: ${formatPath(full)}: ${what}`;
  }
}

type Mapping = Readonly<Record<string, unknown>>;

/** Points at a present key that looks like the missing one. */
function writtenAs(key: string, mapping: Mapping): string {
  const found = nearest(key, Object.keys(mapping));
  return found === undefined ? "" : `; is \`${found}\` it?`;
}
