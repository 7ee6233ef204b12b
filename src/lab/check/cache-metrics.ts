import type { EngineMapping } from "../../pool/endpoints/dialects/engines.ts";
import type { MetricsPage } from "./metrics-page.ts";
import { Finding, skipped, type Verdict } from "./verdict.ts";

/** Counters of prompt tokens found in the prefix cache, under the names of the engines that have them. */
export const PREFIX_HITS: readonly string[] = [
  "vllm:prefix_cache_hits_total",
  "vllm:prefix_cache_hits",
  "vllm:gpu_prefix_cache_hits_total",
  "vllm:gpu_prefix_cache_hits",
  "sglang:cached_tokens_total",
];

/** Tokens per KV block and number of blocks (scheduling 1.7): labels of one family, or two values. */
export function checkCacheConfig(page: MetricsPage, engine: EngineMapping): Verdict {
  const numbers = cacheConfig(page, engine);
  if (numbers === undefined)
    return skipped("cacheConfig", "the page does not tell", {
      remedy: "expose block size and number of blocks where prefixes are reused: pickers guess them otherwise",
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

/** Tokens per KV block, where the page tells. */
export function blockSizeOf(page: MetricsPage | undefined, engine: EngineMapping): number | undefined {
  const size = page === undefined ? Number.NaN : Number(cacheConfig(page, engine)?.[0][1] ?? Number.NaN);
  return Number.isInteger(size) && size > 0 ? size : undefined;
}

type Numbers = readonly [readonly [string, string | undefined], readonly [string, string | undefined]];

function cacheConfig(page: MetricsPage, engine: EngineMapping): Numbers | undefined {
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
 * Whether a prompt that was just answered is found again.
 * @param cached what the second answer says of it; undefined where it does not
 * @param pages the readings before and after
 */
export function checkPrefixReuse(cached: number | undefined, pages: readonly MetricsPage[]): Verdict {
  const hits = cached ?? growth(pages);
  if (hits === undefined)
    return skipped("prefixReuse", "neither usage nor a counter tells whether a repeated prompt was found again");
  const finding = new Finding("prefixReuse");
  if (hits === 0)
    finding.broken(
      "a prompt sent twice was not found again",
      "switch prefix caching on: routing by prefix gains nothing without it",
    );
  return finding.verdict(`a prompt sent twice: ${hits} tokens came from the cache`);
}

function growth(pages: readonly MetricsPage[]): number | undefined {
  if (pages.length < 2) return undefined;
  const sum = (page: MetricsPage): number | undefined => {
    const sums = PREFIX_HITS.map((name) => page.sum(name)).filter((value) => value !== undefined);
    return sums.length === 0 ? undefined : sums.reduce((a, b) => a + b, 0);
  };
  const [before, after] = [sum(pages[0]!), sum(pages.at(-1)!)];
  return after === undefined ? undefined : Math.max(0, after - (before ?? 0));
}
