import type { EngineMapping } from "../../pool/endpoints/dialects/engines.ts";
import { formatSpecification, parseSpecification } from "../../pool/endpoints/dialects/specification.ts";
import type { PageSample, PageSamples, Series } from "./metrics-page.ts";
import { Finding, type ObligationName, skipped, type Verdict } from "./verdict.ts";

/** A load metric, and how to find it. */
interface Wanted {
  readonly obligation: ObligationName;
  /** Metric specifications in order of preference; empty when the engine has none. */
  readonly specifications: readonly (string | undefined)[];
  /** The option that sets another specification. */
  readonly option: string;
  /** Adds the faults of one value to the finding. */
  readonly check: (finding: Finding, name: string, value: number) => void;
}

/** Checks a number of requests: a gauge of whole numbers from 0 up. @param pages one per reading, at least one */
export function checkCount(
  obligation: "queued" | "running",
  pages: readonly PageSamples[],
  specification: string | undefined,
  option: string,
): Verdict {
  return checkGauge(pages, { obligation, specifications: [specification], option, check: count });
}

/** Checks the KV-cache utilisation: a gauge from 0 to 1. @param former an older name that is also valid */
export function checkKvUsage(
  pages: readonly PageSamples[],
  specification: string | undefined,
  former: string | undefined,
  option: string,
): Verdict {
  return checkGauge(pages, { obligation: "kvUsage", specifications: [specification, former], option, check: fraction });
}

function checkGauge(pages: readonly PageSamples[], wanted: Wanted): Verdict {
  const finding = new Finding(wanted.obligation);
  const specifications = wanted.specifications.flatMap((text) => {
    const specification = text === undefined ? undefined : parseSpecification(text);
    return specification === undefined ? [] : [specification];
  });
  if (specifications.length === 0) {
    finding.broken("the engine has no such metric", `expose this metric and name it with ${wanted.option}`);
    return finding.verdict("");
  }
  let last = "";
  for (const page of pages) {
    const series = specifications.map((one) => page.find(one)).find((one) => one !== undefined);
    if (series === undefined) {
      const names = specifications.map(formatSpecification).join(" nor ");
      finding.broken(`${names} is not on the page`, `expose it, or name yours with ${wanted.option}`);
      continue;
    }
    const name = formatSpecification(series.specification);
    checkType(finding, series);
    for (const { value } of series.samples) wanted.check(finding, name, value);
    if (series.samples.length + series.more > 1)
      finding.doubtful(
        `${name} has ${series.samples.length + series.more} series`,
        "expose one series per port: pickers read only the first series",
      );
    last = `${name} is a gauge, now ${series.samples[0]!.value}`;
  }
  return finding.verdict(last);
}

/** Checks the type of a series: the protocol demands a gauge. */
function checkType(finding: Finding, { specification, type }: Series): void {
  const { name } = specification;
  if (type === "gauge") return;
  finding.broken(
    type === "untyped" ? `${name} has no type` : `${name} is a ${type}`,
    `make it a gauge and write \`# TYPE ${name} gauge\` before it: pickers read other types as 0 or not at all`,
  );
}

function count(finding: Finding, name: string, value: number): void {
  if (Number.isNaN(value) || !Number.isFinite(value))
    finding.broken(`${name} is ${value}`, "always report a number; report 0 when there are none");
  else if (value < 0) finding.broken(`${name} is ${value}, below 0`, "report how many requests there are now");
  else if (!Number.isInteger(value))
    finding.broken(`${name} is ${value}, not a whole number`, "report how many requests there are now, not a mean");
}

function fraction(finding: Finding, name: string, value: number): void {
  if (value >= 0 && value <= 1) return;
  if (value > 1 && value <= 100)
    finding.broken(`${name} is ${value}, so its range seems to be 0 to 100`, "divide it by 100: the range is 0 to 1");
  else finding.broken(`${name} is ${value}`, "report the share of KV blocks in use, from 0 to 1");
}

const DAY = 86_400;
/** Unix seconds of 2001-09-09: no model server is older, so a smaller value is not a time. */
const FIRST_PLAUSIBLE = 1e9;
/** With more series than this the page grows without limit: one series for each combination of adapters since the start. */
const MANY_SERIES = 500;

/**
 * Checks the LoRA family (scheduling 1.6): a gauge whose value is the Unix time, in seconds, at which its labels were last
 * true.
 * @param pages one per reading
 * @param specification undefined when the engine has none
 * @param adapters whether the server is known to have adapters
 * @param wall milliseconds since the epoch
 */
export function checkLora(
  pages: readonly PageSamples[],
  specification: string | undefined,
  adapters: boolean,
  wall: number,
): Verdict[] {
  const found = pages.map((page) => page.findText(specification)).filter((series) => series !== undefined);
  if (found.length === 0) {
    const name = specification ?? "a metric of LoRA adapters";
    const none = skipped("loraWaiting", "there are no LoRA metrics");
    if (!adapters)
      return [skipped("lora", `${name} is not on the page; a server without adapters does not need it`), none];
    const finding = new Finding("lora");
    finding.broken(
      `the server has adapters, but ${name} is not on the page`,
      "expose it, or name yours with --lora-info-metric",
    );
    return [finding.verdict(""), none];
  }
  const finding = new Finding("lora");
  const waiting = new Finding("loraWaiting");
  for (const series of found) {
    checkType(finding, series);
    const { name } = series.specification;
    for (const sample of series.samples) {
      checkLabels(finding, name, sample);
      checkTime(finding, name, sample.value, wall / 1000);
      if (!sample.labels.has("waiting_lora_adapters"))
        waiting.broken(
          `${name} has no label waiting_lora_adapters`,
          "add the adapters that requests in the queue want, comma-separated",
        );
    }
    const total = series.samples.length + series.more;
    if (total > MANY_SERIES)
      finding.doubtful(`${name} has ${total} series`, "expose only the series of the adapters that are loaded now");
  }
  const newest = newestOf(found.at(-1)!);
  return [
    finding.verdict(
      `max_lora ${newest.labels.get("max_lora")}, running ${listed(newest, "running_lora_adapters")}, stamped ${Math.round(wall / 1000 - newest.value)} s ago`,
    ),
    waiting.verdict(`waiting ${listed(newest, "waiting_lora_adapters")}`),
  ];
}

function checkLabels(finding: Finding, name: string, { labels }: PageSample): void {
  const max = labels.get("max_lora");
  if (max === undefined)
    finding.broken(`${name} has no label max_lora`, "add it: how many adapters fit in one batch, a whole number");
  else if (!/^\s*[1-9]\d{0,8}\s*$/.test(max))
    finding.broken(
      `max_lora is ${JSON.stringify(max.slice(0, 100))}`,
      "set max_lora to how many adapters fit in one batch, a whole number above 0",
    );
  if (!labels.has("running_lora_adapters"))
    finding.broken(
      `${name} has no label running_lora_adapters`,
      "add the adapters in GPU memory, comma-separated, empty when there is none",
    );
}

function checkTime(finding: Finding, name: string, value: number, now: number): void {
  const latest = now + DAY;
  if (value >= FIRST_PLAUSIBLE && value <= latest) return;
  const remedy =
    "set the value to the Unix time of the last update, in seconds: pickers use the series with the largest value";
  const unit = UNITS.find(([, factor]) => value / factor >= FIRST_PLAUSIBLE && value / factor <= latest);
  if (unit !== undefined) finding.broken(`${name} is ${value}, a time in ${unit[0]}`, remedy);
  else finding.broken(`${name} is ${value}, ${value > latest ? "a time in the future" : "not a time"}`, remedy);
}

const UNITS = [
  ["milliseconds", 1e3],
  ["microseconds", 1e6],
  ["nanoseconds", 1e9],
] as const;

/** The current series: the one with the largest value. */
function newestOf({ samples }: Series): PageSample {
  return samples.reduce((best, sample) => (sample.value > best.value ? sample : best));
}

function listed({ labels }: PageSample, label: string): string {
  const names = (labels.get(label) ?? "").split(",").filter((name) => name.trim() !== "");
  return names.length === 0 ? "none" : names.map((name) => name.trim()).join(", ");
}

/** The counters of prompt tokens found in the prefix cache, by engine. */
export const PREFIX_HITS: readonly string[] = [
  "vllm:prefix_cache_hits_total",
  "vllm:prefix_cache_hits",
  "vllm:gpu_prefix_cache_hits_total",
  "vllm:gpu_prefix_cache_hits",
  "sglang:cached_tokens_total",
];

/** Checks tokens per KV block and number of blocks (scheduling 1.7): labels of one family, or two values. */
export function checkCacheConfig(page: PageSamples, engine: EngineMapping): Verdict {
  const numbers = cacheConfig(page, engine);
  if (numbers === undefined)
    return skipped("cacheConfig", "the page does not show it", {
      remedy: "if the server reuses prefixes, expose block size and number of blocks: otherwise pickers guess them",
    });
  const finding = new Finding("cacheConfig");
  for (const [what, value] of numbers)
    if (!(Number.isInteger(Number(value)) && Number(value) > 0))
      finding.broken(
        `${what} is ${JSON.stringify(value?.slice(0, 100)) ?? "missing"}`,
        "report a whole number above 0",
      );
  return finding.verdict(numbers.map(([what, value]) => `${what} ${value}`).join(", "));
}

/** Tokens per KV block; undefined when the page does not report them. */
export function blockSizeOf(page: PageSamples | undefined, engine: EngineMapping): number | undefined {
  const size = page === undefined ? Number.NaN : Number(cacheConfig(page, engine)?.[0][1] ?? Number.NaN);
  return Number.isInteger(size) && size > 0 ? size : undefined;
}

/** The number of KV blocks that the page shows; undefined when it shows none. */
export function blocksOf(page: PageSamples | undefined, engine: EngineMapping): number | undefined {
  const blocks = page === undefined ? Number.NaN : Number(cacheConfig(page, engine)?.[1][1] ?? Number.NaN);
  return Number.isInteger(blocks) && blocks > 0 ? blocks : undefined;
}

type Numbers = readonly [readonly [string, string | undefined], readonly [string, string | undefined]];

function cacheConfig(page: PageSamples, engine: EngineMapping): Numbers | undefined {
  const size = page.findText(engine.blockSize);
  const blocks = page.findText(engine.blocks);
  if (size !== undefined || blocks !== undefined)
    return [
      [engine.blockSize!, size?.samples[0]?.value.toString()],
      [engine.blocks!, blocks?.samples[0]?.value.toString()],
    ];
  const labels = page.findText(engine.cacheInfo)?.samples[0]?.labels;
  const { blockSizeLabel, blocksLabel } = engine;
  if (labels === undefined || blockSizeLabel === undefined || blocksLabel === undefined) return undefined;
  return [
    [blockSizeLabel, labels.get(blockSizeLabel)],
    [blocksLabel, labels.get(blocksLabel)],
  ];
}

/**
 * Checks whether the prefix cache keeps a prompt that was just answered.
 * @param cached the cached tokens in the second answer; undefined when it does not report them
 * @param pages the readings before and after
 */
export function checkPrefixReuse(cached: number | undefined, pages: readonly PageSamples[]): Verdict {
  const hits = cached ?? growth(pages);
  if (hits === undefined)
    return skipped("prefixReuse", "the server reports cached tokens neither in `usage` nor as a metric");
  const finding = new Finding("prefixReuse");
  if (hits === 0)
    finding.broken(
      "the cache did not have a prompt that was sent twice",
      "turn on prefix caching: without it, routing by prefix gains nothing",
    );
  return finding.verdict(`a prompt sent twice: ${hits} tokens came from the cache`);
}

function growth(pages: readonly PageSamples[]): number | undefined {
  if (pages.length < 2) return undefined;
  const sum = (page: PageSamples): number | undefined => {
    const sums = PREFIX_HITS.map((name) => page.sum(name)).filter((value) => value !== undefined);
    return sums.length === 0 ? undefined : sums.reduce((a, b) => a + b, 0);
  };
  const [before, after] = [sum(pages[0]!), sum(pages.at(-1)!)];
  return after === undefined ? undefined : Math.max(0, after - (before ?? 0));
}
