/**
 * What open pages cost the serving process: CPU at 500 or 2,000 requests a second and 1,000 endpoints, with 1 and 4 pages.
 *
 *   node bench/page.ts [--rate 500|2000]
 *
 * The requests go through real exchanges of one core in this process, without sockets, so the cost of a page stands out. Each runs
 * for 1 s. The pages are streams of all topics, read by a child process. CPU is this process's own (user and system). Each
 * measurement with pages stands between two without, and counts as its difference from their mean; the figure is the median of all
 * rounds, with its quartiles. Takes about 75 s.
 * Ends with PASS or FAIL: an open page takes at most 1 % of a core, or at most 5 % of what the requests take in this run; and
 * nobody asks the source of the page anything while no page is open.
 */
import { fork } from "node:child_process";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { delay } from "../src/base/clock/clock.ts";
import { freshRandom } from "../src/base/clock/random.ts";
import { realClock } from "../src/base/clock/real.ts";
import { UNKNOWN_METRICS } from "../src/base/inference/endpoint.ts";
import { HeaderList } from "../src/base/inference/headers.ts";
import { silentLogger } from "../src/base/telemetry/logger.ts";
import { loadConfig } from "../src/picker/config/load.ts";
import { InferenceCore } from "../src/picker/core/inference-core.ts";
import { PLUGIN_REGISTRY } from "../src/picker/core/plugins/plugins.ts";
import { objectivesFromFlags } from "../src/pool/resources/objectives.ts";
import { viewsOf } from "../src/wires/admin/core-views.ts";
import { coreFeed } from "../src/wires/admin/page/core-feed.ts";
import type { FeedSource } from "../src/wires/admin/page/source.ts";
import { startAdmin } from "../src/wires/admin/server.ts";

const ENDPOINTS = 1000;
const RATES = [500, 2000];
const PAGES = [1, 4];
const ROUNDS = 8;
/** Seconds of one measurement, and before it, in which pages come and go. */
const SECONDS = 1.5;
const SETTLE = 0.5;
const WARM_UP = 6;
const STEP_MS = 10;
/** Milliseconds that a request runs: the page follows those that it shows until they end. */
const RUN_MS = 1000;
const AIM = 0.01;
const RATIO_AIM = 0.05;
const TOPICS = "overview,events,endpoints,decisions,queues";

/** The child: opens as many streams as it is told, and reads them. */
async function readPages(url: string): Promise<void> {
  let open: AbortController[] = [];
  process.on("message", (count: number) => {
    for (const one of open) one.abort();
    open = Array.from({ length: count }, () => new AbortController());
    for (const { signal } of open)
      void fetch(url, { signal })
        .then(async ({ body }) => {
          for await (const _chunk of body!);
        })
        .catch(() => undefined);
  });
  process.on("disconnect", () => process.exit());
}

function makeCore(): InferenceCore {
  const core = new InferenceCore({
    ...{ clock: realClock, random: freshRandom(), config: loadConfig(undefined, PLUGIN_REGISTRY), log: silentLogger },
    models: { objectives: objectivesFromFlags([]) },
    ...{ staleness: 1e9, ignoreSubset: false, retries: true },
  });
  for (let n = 0; n < ENDPOINTS; n++) {
    const endpoint = core.endpoints.upsert({
      ...{ namespace: "default", name: `server-${n}`, address: `10.0.${n >> 8}.${n & 255}`, port: 8000, rank: 0 },
      labels: { zone: `z${n % 3}` },
    })!;
    const figures = { waiting: n % 5, running: n % 30, kvUsage: (n % 100) / 100, scrapedAt: realClock.now() };
    endpoint.metrics = { ...UNKNOWN_METRICS, ...figures };
  }
  return core;
}

const HEADERS = HeaderList.of([
  [":method", "POST"],
  [":path", "/v1/chat/completions"],
]);
const ANSWER = HeaderList.of([["content-type", "text/event-stream"]]);
const FIRST = Buffer.from('data: {"choices":[{"delta":{"content":"x"}}]}\n\n');
const LAST = Buffer.from(
  'data: {"choices":[],"usage":{"prompt_tokens":300,"completion_tokens":40}}\n\ndata: [DONE]\n\n',
);

/** A request that has its first token. @returns ends it */
function request(core: InferenceCore, n: number): () => void {
  const exchange = core.openExchange({ pauseRequest() {}, resumeRequest() {}, evict() {} });
  const content = `${"You are helpful. ".repeat(60)}${n % 64} question ${n}`;
  const body = Buffer.from(JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content }] }));
  exchange.requestHeaders(HEADERS, false);
  void exchange.requestBody(body, true);
  exchange.releaseBody();
  exchange.responseHeaders(200, ANSWER, false);
  exchange.responseBody(FIRST, false);
  return () => exchange.responseBody(LAST, true);
}

setFlagsFromString("--expose-gc");
/** A full collection before each measurement: one that falls into it would take more than a page does. */
const collect = runInNewContext("gc") as () => void;

/** The requests that run, the oldest first. */
const running: { readonly until: number; readonly end: () => void }[] = [];

/** Share of a core that this process takes with this traffic. */
async function coresOf(core: InferenceCore, rate: number, seconds: number): Promise<number> {
  const begin = realClock.now();
  const before = process.cpuUsage();
  let sent = 0;
  for (;;) {
    const passed = realClock.now() - begin;
    if (passed >= seconds * 1000) break;
    const now = begin + passed;
    const due = Math.floor((passed / 1000) * rate);
    for (; sent < due; sent++) running.push({ until: now + RUN_MS, end: request(core, sent) });
    const over = running.findIndex(({ until }) => until > now);
    for (const { end } of running.splice(0, over < 0 ? running.length : over)) end();
    await delay(realClock, STEP_MS);
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / (realClock.now() - begin);
}

/** Of values in any order: the value below which this share of them lies. */
function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = share * (sorted.length - 1);
  const [low, high] = [sorted[Math.floor(at)]!, sorted[Math.ceil(at)]!];
  return low + (high - low) * (at % 1);
}
const median = (values: readonly number[]): number => quantile(values, 0.5);
const percent = (share: number): string => `${(share * 100).toFixed(2)} %`;

/** The source, and how often anything was asked of it. */
function counted(source: FeedSource): { readonly source: FeedSource; calls(): number } {
  let calls = 0;
  const inside = (target: object): object =>
    new Proxy(target, {
      get(of, name) {
        const value: unknown = Reflect.get(of, name, of);
        if (typeof value === "function") {
          calls++;
          return value.bind(of);
        }
        return value;
      },
    });
  const { endpoints, decisions } = source;
  return {
    source: inside({
      ...source,
      endpoints: endpoints && inside(endpoints),
      decisions: decisions && inside(decisions),
    }) as FeedSource,
    calls: () => calls,
  };
}

async function main(rate: number): Promise<void> {
  const core = makeCore();
  const views = viewsOf(core, { unready: () => undefined });
  const { source, stop } = coreFeed(core, {
    ...{ kind: "gateway", name: "bench", phase: () => "serving", unready: () => undefined, settings: () => [] },
  });
  const feed = counted(source);
  const admin = await startAdmin({
    ...{ host: "127.0.0.1", port: 0, clock: realClock, views, feed: feed.source },
    authorize: () => undefined,
  });
  const child = fork(import.meta.filename, [`http://127.0.0.1:${admin.port}/debug/feed/stream?topics=${TOPICS}`]);
  console.log(
    `${rate} requests/s, ${ENDPOINTS} endpoints; rings of ${(core.watch.bytes / 1e6).toFixed(1)} MB; ${ROUNDS} rounds of ${SECONDS} s`,
  );
  let idleCalls = 0;
  const measured = async (pages: number): Promise<number> => {
    child.send(pages);
    await coresOf(core, rate, SETTLE);
    const before = feed.calls();
    collect();
    const cores = await coresOf(core, rate, SECONDS);
    if (pages === 0) idleCalls += feed.calls() - before;
    return cores;
  };
  // Until the code is compiled.
  child.send(1);
  await coresOf(core, Math.max(...RATES), WARM_UP);
  const found = new Map<number, number[]>(PAGES.map((pages) => [pages, []]));
  const bases = [await measured(0)];
  for (let round = 0; round < ROUNDS; round++)
    for (const pages of PAGES) {
      const cores = await measured(pages);
      bases.push(await measured(0));
      found.get(pages)!.push((cores - (bases.at(-2)! + bases.at(-1)!) / 2) / pages);
    }
  const base = median(bases);
  console.log(`no page: ${percent(base)} of a core for the requests; ${idleCalls} questions to the source of the page`);
  let passed = idleCalls === 0;
  for (const [pages, each] of found) {
    const cost = median(each);
    console.log(
      `${pages} pages: each takes ${percent(cost)} of a core (quartiles ${percent(quantile(each, 0.25))} to ${percent(quantile(each, 0.75))}), ${percent(cost / base)} of what the requests take`,
    );
    if (cost > AIM && cost / base > RATIO_AIM) passed = false;
  }
  child.disconnect();
  stop();
  await admin.close();
  await core.close();
  console.log(passed ? "PASS" : "FAIL");
  process.exitCode = passed ? 0 : 1;
}

const [first, second = "500"] = process.argv.slice(2);
if (first !== undefined && first !== "--rate") await readPages(first);
else if (RATES.includes(Number(second))) await main(Number(second));
else throw new Error(`--rate is one of ${RATES.join(", ")}`);
