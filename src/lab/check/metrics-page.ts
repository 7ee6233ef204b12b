import { ExpositionReader, type SampleType } from "../../base/telemetry/exposition-reader.ts";
import type { EngineMapping } from "../../pool/endpoints/dialects/engines.ts";
import { type MetricSpecification, parseSpecification } from "../../pool/endpoints/dialects/specification.ts";
import { MAX_PAGE_BYTES } from "../../pool/endpoints/page-client.ts";
import { excerpt } from "./answers.ts";
import type { HttpProbe, NoAnswer, ProbeAnswer } from "./http-probe.ts";
import { Finding, skipped, type Verdict } from "./verdict.ts";

/** The most samples of one name that are kept; further ones are counted. */
const MAX_SAMPLES = 1000;

export interface PageSample {
  readonly value: number;
  readonly labels: ReadonlyMap<string, string>;
}

/** The samples of a page under one metric specification. */
export interface Series {
  readonly specification: MetricSpecification;
  /** The type of `# TYPE`; `untyped` also without that line. */
  readonly type: SampleType;
  readonly samples: readonly PageSample[];
  /** Number of samples that are not kept. */
  readonly more: number;
}

interface Family {
  type: SampleType;
  readonly samples: PageSample[];
  count: number;
}

/** The wanted families of one metrics page. */
export class PageSamples {
  readonly #families = new Map<string, Family>();
  /** Unreadable lines with wanted names. */
  readonly malformed: number;

  /** @param names wanted sample names, each once */
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

  /** Like `find`, for a specification in the text of an engine mapping. */
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

/** The names of all metrics in a mapping. */
export function namesOf(mapping: EngineMapping): string[] {
  const { queued, running, kvUsage, kvUsageBefore, lora, cacheInfo, blockSize, blocks } = mapping;
  return [queued, running, kvUsage, kvUsageBefore, lora, cacheInfo, blockSize, blocks].flatMap((text) => {
    const specification = text === undefined ? undefined : parseSpecification(text);
    return specification === undefined ? [] : [specification.name];
  });
}

/** The engine with the most metrics on the page; undefined when the page has none of any engine. */
export function engineOf(page: PageSamples, engines: readonly EngineMapping[]): EngineMapping | undefined {
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

/** Milliseconds after which the reference gives up a scrape. */
const SCRAPE_TIMEOUT = 1000;
const MEDIA_TYPES: ReadonlySet<string> = new Set(["text/plain", "application/openmetrics-text"]);
/**
 * A line that holds a sample. No two parts of the pattern match the same blanks: otherwise a page of blanks would take hours.
 */
const SAMPLE = /^[a-zA-Z_:][a-zA-Z0-9_:]*(?:[ \t]*\{[^\n]*\})?[ \t]+[+-]?(?:\.?\d|nan|inf)/im;

/** One reading of the metrics page. */
export interface Reading {
  readonly answer: ProbeAnswer | NoAnswer;
  /** Undefined when the answer is not a metrics page. */
  readonly page: PageSamples | undefined;
}

/** @param names wanted sample names, each once */
export async function readPage(probe: HttpProbe, path: string, names: readonly string[]): Promise<Reading> {
  const answer = await probe.get(path, MAX_PAGE_BYTES);
  const readable = answer.kind === "answer" && answer.status === 200 && !answer.cut && looksLikeMetrics(answer);
  return { answer, page: readable ? new PageSamples(answer.body, names) : undefined };
}

/** Whether the page can be scraped. @param readings at least one */
export function checkPage(readings: readonly Reading[], path: string): Verdict {
  const finding = new Finding("page");
  for (const { answer, page } of readings) {
    if (answer.kind === "none") {
      // The probe had stopped because of other requests, so only the earlier readings count.
      if (answer.reason !== "untried") finding.broken(`GET ${path}: ${answer.detail}`, NO_PAGE[answer.reason]);
      else if (readings.length === 1) return skipped("page", answer.detail, { inconclusive: true });
      continue;
    }
    checkAnswer(finding, answer, page, path);
  }
  const last = readings.findLast((reading) => reading.page !== undefined)?.answer;
  return finding.verdict(last?.kind === "answer" ? `GET ${path} answered 200 with ${last.body.length} bytes` : "");
}

const NO_PAGE = {
  connect: "accept the connections of scrapers even while the model works",
  timeout: "answer scrapes at once, even while the model works",
  broken: "read the log of the server: the server cuts the page short or does not speak HTTP",
} as const;

function checkAnswer(finding: Finding, answer: ProbeAnswer, page: PageSamples | undefined, path: string): void {
  const request = `GET ${path}`;
  if (answer.status === 401 || answer.status === 403)
    finding.broken(
      `${request} answered ${answer.status}`,
      "serve metrics without credentials, because pickers send none; to continue the check, give credentials with --header",
    );
  else if (answer.status !== 200)
    finding.broken(
      `${request} answered ${answer.status}: ${excerpt(answer)}`,
      "serve metrics there, or name the path with --metrics-path",
    );
  else if (answer.cut)
    finding.broken(
      `the page is larger than ${MAX_PAGE_BYTES} bytes`,
      "expose fewer series, because pickers fetch the page many times a second",
    );
  else if (page === undefined)
    finding.broken(
      `${request} answered 200 without a sample in the Prometheus text format: ${excerpt(answer)}`,
      "serve the Prometheus text format there, or name the path with --metrics-path",
    );
  else {
    if (page.malformed > 0)
      finding.broken(
        `${page.malformed} lines, of metrics that pickers read, are not in the Prometheus text format`,
        'write NAME{label="value"} NUMBER',
      );
    if (!MEDIA_TYPES.has(answer.mediaType))
      finding.doubtful(
        `the content type of the page is ${JSON.stringify(answer.mediaType.slice(0, 100))}`,
        "declare text/plain; version=0.0.4",
      );
    if (answer.took > SCRAPE_TIMEOUT)
      finding.doubtful(
        `the page took ${Math.round(answer.took)} ms`,
        "answer within 1000 ms, better within 10 ms: the reference picker gives up after 1000 ms",
      );
  }
}

function looksLikeMetrics({ body }: ProbeAnswer): boolean {
  return SAMPLE.test(body.toString("latin1"));
}
