import { ExpositionReader, type SampleType } from "../../base/telemetry/exposition-reader.ts";
import type { EngineMapping } from "../../pool/endpoints/dialects/engines.ts";
import { type MetricSpecification, parseSpecification } from "../../pool/endpoints/dialects/specification.ts";

/** Samples of one name that are kept; the others are counted. */
const MAX_SAMPLES = 1000;

export interface Sample {
  readonly value: number;
  readonly labels: ReadonlyMap<string, string>;
}

/** What a page says under one metric specification. */
export interface Series {
  readonly specification: MetricSpecification;
  /** What `# TYPE` says; `untyped` also where it says nothing. */
  readonly type: SampleType;
  readonly samples: readonly Sample[];
  /** Samples beyond those kept. */
  readonly more: number;
}

interface Family {
  type: SampleType;
  readonly samples: Sample[];
  count: number;
}

/** The wanted families of one metrics page. */
export class MetricsPage {
  readonly #families = new Map<string, Family>();
  /** Lines of wanted names that cannot be read. */
  readonly malformed: number;

  /** @param names sample names that are wanted, each once */
  constructor(page: Uint8Array, names: readonly string[]) {
    const reader = new ExpositionReader(names);
    for (const name of names) this.#families.set(name, { type: "untyped", samples: [], count: 0 });
    reader.read(page, page.length, ({ index, value, labels }) => {
      const family = this.#families.get(names[index]!)!;
      family.count++;
      if (family.samples.length < MAX_SAMPLES) family.samples.push({ value, labels: labels.toMap() });
    });
    names.forEach((name, index) => {
      this.#families.get(name)!.type = reader.typeOf(index);
    });
    this.malformed = reader.malformed;
  }

  /** @returns undefined when no sample matches */
  find(specification: MetricSpecification): Series | undefined {
    const family = this.#families.get(specification.name);
    const samples = family?.samples.filter(({ labels }) =>
      specification.labels.every(({ name, value }) => labels.get(name) === value),
    );
    if (family === undefined || samples === undefined || samples.length === 0) return undefined;
    return { specification, type: family.type, samples, more: family.count - family.samples.length };
  }

  /** As `find`, for a text that the mapping of an engine holds. */
  findText(text: string | undefined): Series | undefined {
    const specification = text === undefined ? undefined : parseSpecification(text);
    return specification === undefined ? undefined : this.find(specification);
  }

  /** The sum over all samples of one name; undefined when there is none. */
  sum(name: string): number | undefined {
    const family = this.#families.get(name);
    if (family === undefined || family.count === 0) return undefined;
    return family.samples.reduce((sum, { value }) => sum + value, 0);
  }
}

/** The names of the metrics that a mapping speaks of. */
export function namesOf(mapping: EngineMapping): string[] {
  const { queued, running, kvUsage, kvUsageBefore, lora, cacheInfo, blockSize, blocks } = mapping;
  return [queued, running, kvUsage, kvUsageBefore, lora, cacheInfo, blockSize, blocks].flatMap((text) => {
    const specification = text === undefined ? undefined : parseSpecification(text);
    return specification === undefined ? [] : [specification.name];
  });
}

/** The engine whose metrics the page has most of; undefined when it has none of anybody's. */
export function engineOf(page: MetricsPage, engines: readonly EngineMapping[]): EngineMapping | undefined {
  let best: EngineMapping | undefined;
  let most = 0;
  for (const engine of engines) {
    const { queued, running, kvUsage, kvUsageBefore } = engine;
    const found = [queued, running, kvUsage, kvUsageBefore].filter((text) => page.findText(text) !== undefined).length;
    if (found > most) {
      most = found;
      best = engine;
    }
  }
  return best;
}
