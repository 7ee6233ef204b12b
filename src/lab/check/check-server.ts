import type { Clock } from "../../base/clock/clock.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { ENGINES, type EngineMapping, VLLM } from "../../pool/endpoints/dialects/engines.ts";
import { at, cachedTokens, parseJson } from "./answers.ts";
import { APIS, type Api, ask, checkStream, checkWhole, MAX_ANSWER_BYTES } from "./generation.ts";
import { HttpProbe } from "./http-probe.ts";
import {
  blockSizeOf,
  checkCacheConfig,
  checkCount,
  checkKvUsage,
  checkLora,
  checkPrefixReuse,
  PREFIX_HITS,
} from "./metric-checks.ts";
import { checkPage, engineOf, namesOf, type PageSamples, type Reading, readPage } from "./metrics-page.ts";
import { checkAdapter, checkModels, checkUnknownModel, type ModelList } from "./models.ts";
import { type CheckOptions, engineNamed, withNames } from "./options.ts";
import { type ObligationName, skipped, type Verdict } from "./verdict.ts";

/** About twelve tokens. */
const SENTENCE = "The picker reads what a server says about itself. ";
/**
 * Bytes of prompt text per token of a block: enough to fill two KV blocks with any tokenizer. And the longest prompt in bytes.
 */
const BYTES_PER_BLOCK_TOKEN = 16;
const MAX_PROMPT_BYTES = 8192;
const USUAL_BLOCK_SIZE = 16;

/** The result of a check. */
export interface CheckReport {
  readonly origin: string;
  /** The model in the requests; undefined when no model is known. */
  readonly model: string | undefined;
  /** The engine whose metric names the check expects. */
  readonly engine: string;
  readonly verdicts: readonly Verdict[];
  /** 0 = no MUST is broken, 1 = at least one MUST is broken, 2 = a MUST could not be checked. */
  readonly exitStatus: 0 | 1 | 2;
}

/**
 * Checks a live model server against the model server protocol (api-resources 7) with at most ten requests, of which seven ask
 * for four tokens each.
 * @param tell called with each verdict as soon as it is final
 * @throws SluiceError CHECK_UNREACHABLE when no connection opens; FLAG_VALUE
 */
export async function checkServer(
  options: CheckOptions,
  clock: Clock,
  tell: (verdict: Verdict) => void = () => {},
): Promise<CheckReport> {
  const check = new ServerCheck(options, clock, tell);
  try {
    return await check.run();
  } finally {
    await check.close();
  }
}

class ServerCheck {
  readonly #options: CheckOptions;
  readonly #clock: Clock;
  readonly #tell: (verdict: Verdict) => void;
  readonly #probe: HttpProbe;
  readonly #verdicts: Verdict[] = [];
  readonly #secrets: readonly string[];
  /** Cached tokens in the answer to the repeated prompt. */
  #cached: number | undefined;

  constructor(options: CheckOptions, clock: Clock, tell: (verdict: Verdict) => void) {
    this.#options = options;
    this.#clock = clock;
    this.#tell = tell;
    this.#probe = new HttpProbe(clock, options);
    this.#secrets = secretsOf(options.headers);
  }

  async run(): Promise<CheckReport> {
    const { metricsPath, metricNames, skipGeneration } = this.#options;
    const named = this.#options.engine === undefined ? undefined : engineNamed(this.#options.engine);
    const custom = withNames(named ?? { name: "" }, metricNames);
    const names = [...new Set([...[...ENGINES, custom].flatMap(namesOf), ...PREFIX_HITS])];
    const readings = [await readPage(this.#probe, metricsPath, names)];
    if (!this.#probe.connected) throw this.#unreachable(readings[0]!);
    const models = checkModels(await this.#probe.get("/v1/models", MAX_ANSWER_BYTES), this.#options.model);
    this.#add(models.verdict);
    const engine = withNames(named ?? this.#detect(readings) ?? VLLM, metricNames);
    const model = this.#options.model ?? models.first;
    await this.#generate(model, models, blockSizeOf(readings[0]!.page, engine));
    if (!skipGeneration) readings.push(await readPage(this.#probe, metricsPath, names));
    const adapters = this.#options.lora !== undefined || models.adapter !== undefined;
    this.#metrics(readings, engine, adapters);
    return {
      origin: this.#options.origin,
      model,
      engine: engine.name,
      verdicts: this.#verdicts,
      exitStatus: exitStatusOf(this.#verdicts),
    };
  }

  close(): Promise<void> {
    return this.#probe.close();
  }

  async #generate(model: string | undefined, models: ModelList, blockSize: number | undefined): Promise<void> {
    if (this.#options.skipGeneration || model === undefined) {
      const inconclusive = !this.#options.skipGeneration;
      for (const obligation of GENERATION)
        this.#add(
          inconclusive
            ? skipped(obligation, "no model is known", { inconclusive, remedy: "name one with --model" })
            : skipped(obligation, "--skip-generation"),
        );
      return;
    }
    for (const api of ["completions", "chat"] as const) await this.#api(api, model, promptFor(blockSize));
    this.#add(await checkUnknownModel(this.#probe));
    this.#add(await checkAdapter(this.#probe, this.#options.lora ?? models.adapter));
  }

  async #api(api: Api, model: string, prompt: string): Promise<void> {
    const answer = await ask(this.#probe, api, model, prompt);
    for (const verdict of checkWhole(api, model, answer)) this.#add(verdict);
    const served = answer.kind === "answer" && answer.status === 200;
    if (api === "completions" && served) {
      const again = await ask(this.#probe, api, model, prompt);
      if (again.kind === "answer") this.#cached = cachedTokens(at(parseJson(again.body), "usage"));
    }
    for (const verdict of checkStream(api, model, await ask(this.#probe, api, model, prompt, true))) this.#add(verdict);
  }

  #metrics(readings: readonly Reading[], engine: EngineMapping, adapters: boolean): void {
    this.#add(checkPage(readings, this.#options.metricsPath));
    const pages = readings.map(({ page }) => page).filter((page): page is PageSamples => page !== undefined);
    if (pages.length === 0) {
      for (const obligation of METRICS)
        this.#add(skipped(obligation, "there is no metrics page", { inconclusive: true }));
      return;
    }
    this.#add(checkCount("queued", pages, engine.queued, "--total-queued-requests-metric"));
    this.#add(checkCount("running", pages, engine.running, "--total-running-requests-metric"));
    this.#add(checkKvUsage(pages, engine.kvUsage, engine.kvUsageBefore, "--kv-cache-usage-percentage-metric"));
    for (const verdict of checkLora(pages, engine.lora, adapters, this.#clock.wall())) this.#add(verdict);
    this.#add(checkCacheConfig(pages.at(-1)!, engine));
    this.#add(
      this.#options.skipGeneration
        ? skipped("prefixReuse", "--skip-generation")
        : checkPrefixReuse(this.#cached, pages),
    );
  }

  #detect(readings: readonly Reading[]): EngineMapping | undefined {
    const page = readings.find((reading) => reading.page !== undefined)?.page;
    return page === undefined ? undefined : engineOf(page, ENGINES);
  }

  #add(verdict: Verdict): void {
    let { seen } = verdict;
    for (const secret of this.#secrets) seen = seen.replaceAll(secret, "***");
    const clean = { ...verdict, seen };
    this.#verdicts.push(clean);
    this.#tell(clean);
  }

  #unreachable({ answer }: Reading): SluiceError {
    const detail = answer.kind === "none" ? answer.detail : "";
    const { origin } = this.#options;
    // OpenSSL reports an answer without TLS in these words. The rest of its text is an address in its sources.
    const why = detail.includes("wrong version number")
      ? `the server does not speak TLS; try ${origin.replace("https:", "http:")}`
      : detail;
    return new SluiceError("CHECK_UNREACHABLE", `cannot connect to ${origin}: ${why}`);
  }
}

const GENERATION: readonly ObligationName[] = [
  ...Object.entries(APIS).flatMap(([api, { usage, stream, streamUsage }]): ObligationName[] => [
    api as Api,
    usage,
    stream,
    streamUsage,
  ]),
  "unknownModel",
  "adapter",
];

const METRICS: readonly ObligationName[] = [
  "queued",
  "running",
  "kvUsage",
  "lora",
  "loraWaiting",
  "cacheConfig",
  "prefixReuse",
];

/** A prompt long enough that a prefix cache with blocks keeps a part of it. @param blockSize tokens */
function promptFor(blockSize: number | undefined): string {
  const bytes = Math.min(MAX_PROMPT_BYTES, (blockSize ?? USUAL_BLOCK_SIZE) * BYTES_PER_BLOCK_TOKEN);
  return SENTENCE.repeat(Math.ceil(bytes / SENTENCE.length));
}

function exitStatusOf(verdicts: readonly Verdict[]): 0 | 1 | 2 {
  if (verdicts.some(({ result }) => result === "FAIL")) return 1;
  return verdicts.some(({ level, inconclusive }) => level === "MUST" && inconclusive) ? 2 : 0;
}

/** Texts that must not be shown: the values of headers, and those of their words that are long enough for a key. */
function secretsOf(headers: CheckOptions["headers"]): string[] {
  const secrets = headers.flatMap(([, value]) => [value, ...value.split(/\s+/).filter((word) => word.length >= 8)]);
  return [...new Set(secrets)].filter((secret) => secret.length >= 4).sort((a, b) => b.length - a.length);
}
