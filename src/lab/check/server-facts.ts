import type { Clock } from "../../base/clock/clock.ts";
import type { ServerTls } from "../../base/grpc/server-tls.ts";
import { ENGINES, type EngineMapping } from "../../pool/endpoints/dialects/engines.ts";
import { at, excerpt, parseJson } from "./answers.ts";
import { type ClockSkew, clockSkew } from "./clock-skew.ts";
import { HttpProbe, type NoAnswer, type ProbeAnswer } from "./http-probe.ts";
import { blockSizeOf, blocksOf } from "./metric-checks.ts";
import { engineOf, namesOf, type PageSamples, readPage } from "./metrics-page.ts";

/** The values of a metrics page that routing reads. */
export const LOAD_METRICS = ["waiting", "running", "kvUsage", "blockSize"] as const;
export type LoadMetric = (typeof LOAD_METRICS)[number];

/** The most bytes of an answer that is no metrics page. */
const MAX_BYTES = 1024 * 1024;
/** The most models of one server that are kept. */
const MAX_MODELS = 1000;
/** The most characters of a version. */
const MAX_VERSION = 100;

/** What a model server says about itself. */
export interface ServerFacts {
  /** `http://host:port`. */
  readonly origin: string;
  /** Why the server does not answer; undefined = it answers. */
  readonly problem: string | undefined;
  readonly engine: string | undefined;
  readonly version: string | undefined;
  /** The server is `sluice sim`. */
  readonly isSimulator: boolean;
  readonly models: readonly string[];
  readonly adapters: readonly { readonly name: string; readonly parent: string }[];
  /** Why there are no models. */
  readonly modelsProblem: string | undefined;
  readonly missing: readonly LoadMetric[];
  /** Why no metrics page can be read; `missing` then has all values. */
  readonly metricsProblem: string | undefined;
  readonly blockSize: number | undefined;
  readonly blocks: number | undefined;
  /** Undefined = the server does not show it. */
  readonly prefixCaching: boolean | undefined;
  readonly skew: ClockSkew | undefined;
}

/** How to ask. */
export interface AskOptions {
  /** Milliseconds for each request. */
  readonly timeout: number;
  readonly headers?: readonly (readonly [name: string, value: string])[];
  /** How `https://` origins are reached; absent = as Node.js does by itself. */
  readonly tls?: ServerTls | undefined;
}

/** Asks a model server by a few GET requests, none of which makes the model work. @param origin `http://host:port`, or with `https` */
export async function askServer(origin: string, options: AskOptions, clock: Clock): Promise<ServerFacts> {
  const { headers = [], timeout, tls } = options;
  const probe = new HttpProbe(clock, { origin, headers, timeout, tls });
  try {
    return await ask(origin, probe);
  } finally {
    await probe.close();
  }
}

async function ask(origin: string, probe: HttpProbe): Promise<ServerFacts> {
  const list = await probe.get("/v1/models", MAX_BYTES);
  const names = [...new Set(ENGINES.flatMap(namesOf))];
  // A server whose port nobody answers is not asked again.
  const isGone = list.kind === "none" && !probe.connected;
  const { answer: pageAnswer, page } = isGone
    ? { answer: list, page: undefined }
    : await readPage(probe, "/metrics", names);
  const answers = [list, pageAnswer];
  const problem = answers.every(({ kind }) => kind === "none") ? (list as NoAnswer).detail : undefined;
  const found = modelsIn(list);
  const mapping = page === undefined ? undefined : engineOf(page, ENGINES);
  const engine = mapping?.name ?? ownerOf(list);
  const about = problem === undefined ? await versionOf(probe, engine) : NOTHING;
  const dated = answers.find((answer) => answer.kind === "answer");
  return {
    origin,
    problem,
    engine: engine ?? about.engine,
    version: about.version,
    isSimulator: about.isSimulator,
    ...found,
    missing: page === undefined || mapping === undefined ? LOAD_METRICS : missingIn(page, mapping),
    metricsProblem: metricsProblem(pageAnswer, page, mapping),
    blockSize: mapping === undefined ? undefined : blockSizeOf(page, mapping),
    blocks: mapping === undefined ? undefined : blocksOf(page, mapping),
    prefixCaching: about.prefixCaching ?? prefixCachingIn(page, mapping),
    skew: dated === undefined ? undefined : clockSkew(dated.date, dated.sentAt ?? 0, dated.took),
  };
}

type Found = Pick<ServerFacts, "models" | "adapters" | "modelsProblem">;

/** The models of a list; vLLM lists adapters as entries with a parent. */
function modelsIn(answer: ProbeAnswer | NoAnswer): Found {
  const none = (modelsProblem: string): Found => ({ models: [], adapters: [], modelsProblem });
  if (answer.kind === "none") return none(answer.detail);
  if (answer.status !== 200) return none(`GET /v1/models answered ${answer.status}: ${excerpt(answer)}`);
  const data = at(parseJson(answer.body), "data");
  if (!Array.isArray(data)) return none("GET /v1/models answered without a list in `data`");
  const models: string[] = [];
  const adapters: { name: string; parent: string }[] = [];
  for (const entry of data.slice(0, MAX_MODELS)) {
    const [name, parent] = [at(entry, "id"), at(entry, "parent")];
    if (typeof name !== "string") continue;
    if (typeof parent === "string") adapters.push({ name, parent });
    else models.push(name);
  }
  return models.length === 0 ? none("GET /v1/models names no model") : { models, adapters, modelsProblem: undefined };
}

/** The engine that the list of models names as their owner. */
function ownerOf(answer: ProbeAnswer | NoAnswer): string | undefined {
  if (answer.kind === "none") return undefined;
  const owner = at(parseJson(answer.body), "data", 0, "owned_by");
  return ENGINES.find(({ name }) => name === owner)?.name;
}

interface About {
  readonly engine: string | undefined;
  readonly version: string | undefined;
  readonly isSimulator: boolean;
  readonly prefixCaching: boolean | undefined;
}

const NOTHING: About = { engine: undefined, version: undefined, isSimulator: false, prefixCaching: undefined };

/** A page on which engines tell their version. */
interface VersionPage {
  readonly path: string;
  /** The engines that have the page. */
  readonly engines: readonly string[];
  /** The engine that an unknown server with this page is. */
  readonly means?: string;
}

const VERSION_PAGES: readonly VersionPage[] = [
  { path: "/get_server_info", engines: ["sglang"], means: "sglang" },
  { path: "/version", engines: ["vllm", "trtllm-serve"] },
  { path: "/v2", engines: ["triton", "triton-tensorrt-llm"], means: "triton" },
];

async function versionOf(probe: HttpProbe, engine: string | undefined): Promise<About> {
  for (const { path, engines, means } of VERSION_PAGES) {
    if (engine !== undefined && !engines.includes(engine)) continue;
    const value = await jsonAt(probe, path);
    const version = at(value, "version");
    if (typeof version !== "string" || version === "") continue;
    const disabled = at(value, "disable_radix_cache");
    const prefixCaching = typeof disabled === "boolean" ? !disabled : undefined;
    return { ...NOTHING, engine: engine ?? means, version: version.slice(0, MAX_VERSION), prefixCaching };
  }
  // SGLang behind a proxy may hide the page above, and yet tell of its model.
  if (engine === undefined && typeof at(await jsonAt(probe, "/get_model_info"), "model_path") === "string")
    return { ...NOTHING, engine: "sglang" };
  // Only `sluice sim` has this page with this key.
  const isSimulator = at(await jsonAt(probe, "/admin/config"), "failure-injection-rate") !== undefined;
  return { ...NOTHING, isSimulator };
}

async function jsonAt(probe: HttpProbe, path: string): Promise<unknown> {
  const answer = await probe.get(path, MAX_BYTES);
  return answer.kind === "answer" && answer.status === 200 ? parseJson(answer.body) : undefined;
}

function metricsProblem(
  answer: ProbeAnswer | NoAnswer,
  page: PageSamples | undefined,
  mapping: EngineMapping | undefined,
): string | undefined {
  if (answer.kind === "none") return `GET /metrics: ${answer.detail}`;
  if (answer.status !== 200) return `GET /metrics answered ${answer.status}`;
  if (page === undefined) return "GET /metrics answered without metrics in the Prometheus text format";
  return mapping === undefined ? "GET /metrics has the metrics of no known engine" : undefined;
}

/** The values that the engine has names for and the page has not. */
function missingIn(page: PageSamples, mapping: EngineMapping): LoadMetric[] {
  const has: Readonly<Record<LoadMetric, boolean>> = {
    waiting: page.findText(mapping.queued) !== undefined,
    running: page.findText(mapping.running) !== undefined,
    kvUsage: page.findText(mapping.kvUsage) !== undefined || page.findText(mapping.kvUsageBefore) !== undefined,
    blockSize: blockSizeOf(page, mapping) !== undefined,
  };
  return LOAD_METRICS.filter((name) => !has[name]);
}

/** vLLM shows its cache configuration as labels. */
function prefixCachingIn(page: PageSamples | undefined, mapping: EngineMapping | undefined): boolean | undefined {
  const text = page?.findText(mapping?.cacheInfo)?.samples[0]?.labels.get("enable_prefix_caching")?.toLowerCase();
  return text === "true" ? true : text === "false" ? false : undefined;
}
