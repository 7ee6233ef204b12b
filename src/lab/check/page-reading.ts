import { MAX_PAGE_BYTES } from "../../pool/endpoints/scrape-client.ts";
import { excerpt } from "./answers.ts";
import type { Answer, HttpProbe, NoAnswer } from "./http-probe.ts";
import { MetricsPage } from "./metrics-page.ts";
import { Finding, skipped, type Verdict } from "./verdict.ts";

/** Milliseconds after which the reference gives up a scrape. */
const SCRAPE_TIMEOUT = 1000;
const MEDIA_TYPES: ReadonlySet<string> = new Set(["text/plain", "application/openmetrics-text"]);
/** A line that holds a sample. No two parts can share blanks: a page of nothing else would take hours. */
const SAMPLE = /^[a-zA-Z_:][a-zA-Z0-9_:]*(?:[ \t]*\{[^\n]*\})?[ \t]+[+-]?(?:\.?\d|nan|inf)/im;

/** One reading of the metrics page. */
export interface Reading {
  readonly answer: Answer | NoAnswer;
  /** Undefined when what came is no metrics page. */
  readonly page: MetricsPage | undefined;
}

/** @param names sample names that are wanted, each once */
export async function readPage(probe: HttpProbe, path: string, names: readonly string[]): Promise<Reading> {
  const answer = await probe.get(path, MAX_PAGE_BYTES);
  const readable = answer.kind === "answer" && answer.status === 200 && !answer.cut && looksLikeMetrics(answer);
  return { answer, page: readable ? new MetricsPage(answer.body, names) : undefined };
}

/** Whether the page can be scraped at all. @param readings at least one */
export function checkPage(readings: readonly Reading[], path: string): Verdict {
  const finding = new Finding("page");
  for (const { answer, page } of readings) {
    if (answer.kind === "none") {
      // Given up because of other requests: the readings before count.
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
  connect: "accept the connections of scrapers, whatever the model does",
  timeout: "answer scrapes at once, whatever the model does",
  broken: "see in its log why it cuts the page short or does not speak HTTP",
} as const;

function checkAnswer(finding: Finding, answer: Answer, page: MetricsPage | undefined, path: string): void {
  const request = `GET ${path}`;
  if (answer.status === 401 || answer.status === 403)
    finding.broken(
      `${request} answered ${answer.status}`,
      "serve metrics without credentials, as pickers scrape; to check on, give them with --header",
    );
  else if (answer.status !== 200)
    finding.broken(
      `${request} answered ${answer.status}: ${excerpt(answer)}`,
      "serve metrics there, or name the path with --metrics-path",
    );
  else if (answer.cut)
    finding.broken(
      `the page is larger than ${MAX_PAGE_BYTES} bytes`,
      "expose fewer series: it is fetched many times a second",
    );
  else if (page === undefined)
    finding.broken(
      `${request} answered 200 without a sample in the Prometheus text format: ${excerpt(answer)}`,
      "serve the Prometheus text format there, or name the path with --metrics-path",
    );
  else {
    if (page.malformed > 0)
      finding.broken(
        `${page.malformed} lines of metrics that are read are not in the Prometheus text format`,
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
        "answer within 1000 ms, better 10: the reference picker gives up after that",
      );
  }
}

function looksLikeMetrics({ body }: Answer): boolean {
  return SAMPLE.test(body.toString("latin1"));
}
