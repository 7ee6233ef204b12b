import { type EndpointMetrics, UNKNOWN_METRICS } from "../../../base/inference/endpoint.ts";
import { ExpositionReader, type ExpositionSample } from "../../../base/telemetry/exposition-reader.ts";
import type { PoolEndpoint } from "../pool-endpoint.ts";
import type { EngineMapping } from "./engines.ts";
import { PageLayout, type SampleSink } from "./page-layout.ts";
import { CacheInfo, LoraInfo, type RankRule, Scalar } from "./page-values.ts";
import {
  formatSpecification,
  type MetricLabel,
  type MetricSpecification,
  parseSpecification,
} from "./specification.ts";

/** The values that a dialect read from one metrics page. */
export interface ReadPage {
  readonly metrics: EndpointMetrics;
  /** How many of the wanted values the page held; 0 means that the page has no use. */
  readonly found: number;
  /** Names of wanted values that are missing, absurd or of the wrong type. */
  readonly missing: readonly string[];
}

/** The names that one kind of model server gives its load on its metrics page. */
export interface Dialect {
  /** Engine name as in the label `llm-d.ai/engine-type`. */
  readonly name: string;
  /** A reader for the pages of one endpoint. */
  createReader(endpoint?: PoolEndpoint): PageReader;
}

/** Reads the pages of one endpoint, one after the other. */
export interface PageReader {
  /**
   * Reads the first `length` bytes of `page`, synchronously and without keeping them. Never throws for a bad page.
   * @param previous source of constant values (adapters, block sizes) that the page omits
   * @param now monotonic milliseconds, the `scrapedAt` of the result
   */
  read(page: Uint8Array, length: number, previous: EndpointMetrics, now: number): ReadPage;
}

/** The metrics pages of one kind of model server, read as its mapping says (scheduling 1.3-1.7). */
export class MappedDialect implements Dialect {
  readonly name: string;
  readonly #mapping: ReadMapping;
  readonly #names: readonly string[];
  /** One reader serves all endpoints: its tables are large, and it keeps nothing from page to page. */
  readonly #reader: ExpositionReader;

  /** @throws SluiceError METRIC_SPECIFICATION */
  constructor(mapping: EngineMapping) {
    this.name = mapping.name;
    const read = {
      queued: parseSpecification(mapping.queued ?? ""),
      running: parseSpecification(mapping.running ?? ""),
      kvUsage: parseSpecification(mapping.kvUsage ?? ""),
      kvUsageBefore: parseSpecification(mapping.kvUsageBefore ?? ""),
      lora: parseSpecification(mapping.lora ?? ""),
      cacheInfo: parseSpecification(mapping.cacheInfo ?? ""),
      blockSize: parseSpecification(mapping.blockSize ?? ""),
      blocks: parseSpecification(mapping.blocks ?? ""),
    };
    const { blockSizeLabel = "", blocksLabel = "", hasMeans = false } = mapping;
    const attributes = (mapping.attributes ?? []).map(({ key, metric }) => ({
      key,
      metric: parseSpecification(metric),
    }));
    this.#mapping = { ...read, blockSizeLabel, blocksLabel, attributes, hasMeans };
    const wanted = [...Object.values(read), ...attributes.map(({ metric }) => metric)];
    this.#names = [...new Set(wanted.flatMap((specification) => specification?.name ?? []))];
    this.#reader = new ExpositionReader(this.#names);
  }

  createReader(): PageReader {
    return new MappedPages(this.#mapping, this.#names, this.#reader);
  }
}

/** The limit of plausible attributes: an infinite value is no measurement. */
const MOST = Number.MAX_VALUE;

const NOTHING_MISSING: readonly string[] = [];

/** A mapping whose specifications were parsed; undefined = not collected. */
interface ReadMapping {
  readonly queued: MetricSpecification | undefined;
  readonly running: MetricSpecification | undefined;
  readonly kvUsage: MetricSpecification | undefined;
  readonly kvUsageBefore: MetricSpecification | undefined;
  readonly lora: MetricSpecification | undefined;
  readonly cacheInfo: MetricSpecification | undefined;
  readonly blockSize: MetricSpecification | undefined;
  readonly blocks: MetricSpecification | undefined;
  readonly blockSizeLabel: string;
  readonly blocksLabel: string;
  readonly attributes: readonly { readonly key: string; readonly metric: MetricSpecification | undefined }[];
  readonly hasMeans: boolean;
}

/** Makes a value from samples. */
interface Value {
  reset(): void;
  add(sample: ExpositionSample): void;
}

/** A value and its samples, among those of one name. */
interface Taker {
  readonly labels: readonly MetricLabel[];
  readonly value: Value;
}

/** A number that is collected. */
interface Wanted {
  /** The name of the value when it is missing. */
  readonly text: string;
  readonly scalar: Scalar;
}

/** The pages of one endpoint. */
class MappedPages implements PageReader, SampleSink {
  readonly #reader: ExpositionReader;
  readonly #layout: PageLayout;
  readonly #names: readonly string[];
  /** By index of the name. `nv_trt_llm_kv_cache_block_metrics` gives three values. */
  readonly #takers: readonly Taker[][];
  readonly #scalars: Scalar[] = [];
  readonly #queued: Wanted | undefined;
  readonly #running: Wanted | undefined;
  readonly #kvUsage: Wanted | undefined;
  readonly #kvUsageBefore: Wanted | undefined;
  readonly #blockSize: Wanted | undefined;
  readonly #blocks: Wanted | undefined;
  readonly #lora: LoraInfo | undefined;
  readonly #cache: CacheInfo | undefined;
  readonly #attributes: readonly (Wanted & { readonly key: string })[];
  readonly #mapping: ReadMapping;
  #found = 0;

  /**
   * @param names of all metrics in the mapping, distinct
   * @param reader for these names in this order
   */
  constructor(mapping: ReadMapping, names: readonly string[], reader: ExpositionReader) {
    this.#mapping = mapping;
    this.#names = names;
    this.#reader = reader;
    this.#layout = new PageLayout(names, this);
    this.#takers = names.map(() => []);
    this.#queued = this.#number(mapping.queued, "sum", Number.MAX_SAFE_INTEGER);
    this.#running = this.#number(mapping.running, "sum", Number.MAX_SAFE_INTEGER);
    this.#kvUsage = this.#number(mapping.kvUsage, "mean", 1);
    this.#kvUsageBefore = this.#number(mapping.kvUsageBefore, "mean", 1);
    this.#blockSize = this.#number(mapping.blockSize, "first", Number.MAX_SAFE_INTEGER);
    this.#blocks = this.#number(mapping.blocks, "first", Number.MAX_SAFE_INTEGER);
    this.#attributes = mapping.attributes.flatMap(({ key, metric }) => {
      const wanted = this.#number(metric, "first", MOST, -MOST);
      return wanted === undefined ? [] : [{ ...wanted, key }];
    });
    this.#lora = mapping.lora && this.#taking(mapping.lora, new LoraInfo());
    this.#cache =
      mapping.cacheInfo && this.#taking(mapping.cacheInfo, new CacheInfo(mapping.blockSizeLabel, mapping.blocksLabel));
  }

  reset(index: number): void {
    for (const { value } of this.#takers[index]!) value.reset();
  }

  add(sample: ExpositionSample): void {
    for (const { labels, value } of this.#takers[sample.index]!) if (carries(sample, labels)) value.add(sample);
  }

  read(page: Uint8Array, length: number, previous: EndpointMetrics, now: number): ReadPage {
    this.#layout.read(this.#reader, page, length);
    if (this.#wantLabels()) {
      this.#layout.forget();
      this.#layout.read(this.#reader, page, length);
    }
    this.#found = 0;
    const gaps: string[] = [];
    const queued = this.#take(this.#queued, gaps);
    const running = this.#take(this.#running, gaps);
    const kvUsage = this.#takeKvUsage(gaps);
    const lora = this.#takeLora(previous, gaps);
    const cache = this.#takeCache(previous, gaps);
    const attributes = this.#takeAttributes(gaps);
    const whole = this.#mapping.hasMeans ? (value: number) => value : Math.trunc;
    const metrics: EndpointMetrics = {
      waiting: whole(queued),
      running: whole(running),
      kvUsage,
      maxLora: lora.maxLora,
      loraRunning: lora.loraRunning,
      loraWaiting: lora.loraWaiting,
      blockSize: cache.blockSize,
      blocks: cache.blocks,
      ...(attributes === undefined ? {} : { attributes }),
      scrapedAt: now,
    };
    return { metrics, found: this.#found, missing: gaps.length === 0 ? NOTHING_MISSING : gaps };
  }

  /** NaN when the value is not collected or not on the page. */
  #take(wanted: Wanted | undefined, gaps: string[]): number {
    if (wanted === undefined) return Number.NaN;
    const { value } = wanted.scalar;
    if (Number.isNaN(value)) gaps.push(wanted.text);
    else this.#found++;
    return value;
  }

  /** Undefined when the mapping has none. A value that the page lacks is missing: the one before does not count. */
  #takeAttributes(gaps: string[]): ReadonlyMap<string, number> | undefined {
    if (this.#attributes.length === 0) return undefined;
    const values = new Map<string, number>();
    for (const wanted of this.#attributes) {
      const value = this.#take(wanted, gaps);
      if (!Number.isNaN(value)) values.set(wanted.key, value);
    }
    return values;
  }

  #takeKvUsage(gaps: string[]): number {
    const now = this.#kvUsage?.scalar.value ?? Number.NaN;
    const before = this.#kvUsageBefore?.scalar.value ?? Number.NaN;
    if (!Number.isNaN(now) || Number.isNaN(before)) return this.#take(this.#kvUsage, gaps);
    this.#found++;
    return before;
  }

  #takeLora(
    previous: EndpointMetrics,
    gaps: string[],
  ): Pick<EndpointMetrics, "maxLora" | "loraRunning" | "loraWaiting"> {
    const lora = this.#lora;
    if (lora === undefined) return UNKNOWN_METRICS;
    // A server without adapters may leave the family out (S-15). A server that has it must say how many fit.
    if (!lora.present) return previous;
    this.#found++;
    if (Number.isNaN(lora.max)) gaps.push(`${formatSpecification(this.#mapping.lora!)} label max_lora`);
    return { maxLora: lora.max, loraRunning: lora.running, loraWaiting: lora.waiting };
  }

  #takeCache(previous: EndpointMetrics, gaps: string[]): { blockSize: number; blocks: number } {
    const cache = this.#cache;
    let { blockSize, blocks } = UNKNOWN_METRICS;
    if (cache !== undefined || this.#blockSize !== undefined) blockSize = previous.blockSize;
    if (cache !== undefined || this.#blocks !== undefined) blocks = previous.blocks;
    if (cache?.present) {
      this.#found++;
      blockSize = cache.blockSize;
      if (!Number.isNaN(cache.blocks)) blocks = cache.blocks;
      if (Number.isNaN(blockSize) && this.#blockSize === undefined)
        gaps.push(`${formatSpecification(this.#mapping.cacheInfo!)} label ${this.#mapping.blockSizeLabel}`);
    } else if (cache !== undefined) gaps.push(formatSpecification(this.#mapping.cacheInfo!));
    const asValue = Math.trunc(this.#take(this.#blockSize, gaps));
    if (!Number.isNaN(asValue)) blockSize = asValue;
    const blocksAsValue = Math.trunc(this.#take(this.#blocks, gaps));
    if (!Number.isNaN(blocksAsValue)) blocks = blocksAsValue;
    return { blockSize, blocks };
  }

  #wantLabels(): boolean {
    let want = false;
    for (const scalar of this.#scalars) if (scalar.wantsLabels()) want = true;
    return want;
  }

  #number(specification: MetricSpecification | undefined, rule: RankRule, max: number, min = 0): Wanted | undefined {
    if (specification === undefined) return undefined;
    const scalar = this.#taking(specification, new Scalar(rule, min, max));
    this.#scalars.push(scalar);
    return { text: formatSpecification(specification), scalar };
  }

  #taking<V extends Value>({ name, labels }: MetricSpecification, value: V): V {
    this.#takers[this.#names.indexOf(name)]!.push({ labels, value });
    return value;
  }
}

function carries(sample: ExpositionSample, labels: readonly MetricLabel[]): boolean {
  for (const { name, value } of labels) if (sample.labels.get(name) !== value) return false;
  return true;
}
