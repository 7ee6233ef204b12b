import { basename } from "node:path";
import { grouped } from "../../../base/document/words.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import { VERSION } from "../../../base/process/version.ts";
import { silentLogger } from "../../../base/telemetry/logger.ts";
import { type ConfigSource, checkedConfig } from "../../../picker/core/config-source.ts";
import { recordOf } from "../../../picker/decisions/explain-record.ts";
import { type EnginePreset, presetNamed } from "../../simulator/batching/config.ts";
import { SCRAPE_INTERVAL } from "../cluster.ts";
import { POLICIES, type Policy } from "../policies.ts";
import { runStudy, type StudyOptions } from "../study.ts";
import { AccessFields } from "./access-fields.ts";
import { AccessLog } from "./access-log.ts";
import { textEntry, UNKNOWN_FORMAT } from "./access-text.ts";
import { DecisionComparison } from "./decision-comparison.ts";
import { type Item, ItemFile } from "./items.ts";
import { recordedTraffic } from "./recorded-traffic.ts";
import type { BrokenItem, ReplayStudy, TrafficStudy } from "./replay-result.ts";
import { knownConfigurations, ReplayedConfiguration } from "./replayed-configuration.ts";

/** The most broken items that the result names. */
const NAMED_BROKEN = 5;
const MAX_FILES = 1000;
const MAX_SERVERS = 512;
const USUAL_POLICIES = ["round-robin", "default"];
const USUAL_PRESET = "qwen3-32b-2xh100";

/** Settings that the files do not contain. All but `recordedWith` and `onRead` apply to access logs only. */
export interface ReplayOptions extends StudyOptions {
  /** The configuration of the recorded decisions, if it is not built in. It serves to check them. */
  readonly recordedWith?: ConfigSource | undefined;
  /** The places of fields in an access log, as `name=path.of.members`. */
  readonly fields?: readonly string[] | undefined;
  /** 1 to 512; default: the number of servers in the log. */
  readonly servers?: number | undefined;
  /** The engine of the servers; default `qwen3-32b-2xh100`. */
  readonly preset?: EnginePreset | undefined;
  /** The policies besides the configuration, simplest first; default `round-robin` and `default`. */
  readonly policies?: readonly Policy[] | undefined;
  /** Default: 1. */
  readonly seeds?: readonly number[] | undefined;
  /** Requests per second, > 0: scales the recorded times; default as recorded. */
  readonly rate?: number | undefined;
  /** Tokens of a prompt when the log does not contain its length, >= 1. */
  readonly promptTokens?: number | undefined;
  /** Called at intervals with the number of items read. */
  onRead?(items: number): void;
}

/**
 * Replays recordings with another configuration. Records of decisions (`sluice explain --full`) are decided again. Entries of
 * access logs become traffic for simulated servers. A file may hold both.
 * @param source the other configuration; nothing = the built-in one
 * @throws SluiceError REPLAY_INPUT when no item is usable; the errors of `checkedConfig`, FLAG_VALUE, DOCUMENT_...
 */
export async function replayRecorded(
  files: readonly string[],
  source: ConfigSource,
  options: ReplayOptions = {},
): Promise<ReplayStudy> {
  if (files.length > MAX_FILES)
    throw new SluiceError("FLAG_VALUE", `${files.length} files are too many; give at most ${MAX_FILES}`);
  const fields = new AccessFields(options.fields);
  const other = new ReplayedConfiguration(await checkedConfig(source, silentLogger));
  const known: ReplayedConfiguration[] = [];
  try {
    known.push(...(await knownConfigurations(options.recordedWith)));
    const reading = new Reading(fields, new DecisionComparison(other, known));
    for (const name of files) await reading.read(new ItemFile(name), options);
    const { broken, log } = reading;
    const decisions = reading.records === 0 ? undefined : reading.comparison.result();
    const playable = log.requests.length > 0;
    if (decisions === undefined && !playable) throw nothing(files, broken, log);
    return {
      ...{ version: VERSION, configuration: other.source, configHash: other.hash, broken, decisions },
      files: reading.files.map(({ name, bytes, items, cut }) => ({ name, bytes, items, cut })),
      notPlayed: playable ? [] : log.skipped,
      traffic: playable ? await trafficStudy(log, source, options) : undefined,
    };
  } finally {
    for (const one of [other, ...known]) one.close();
  }
}

/** Sorts the items of files into decisions, requests, and broken items. */
class Reading {
  readonly comparison: DecisionComparison;
  readonly log = new AccessLog();
  readonly files: ItemFile[] = [];
  readonly #fields: AccessFields;
  readonly #broken: BrokenItem[] = [];
  #brokenCount = 0;
  #items = 0;
  records = 0;

  constructor(fields: AccessFields, comparison: DecisionComparison) {
    this.#fields = fields;
    this.comparison = comparison;
  }

  get broken(): ReplayStudy["broken"] {
    return { count: this.#brokenCount, first: this.#broken };
  }

  async read(file: ItemFile, { signal, onRead }: ReplayOptions): Promise<void> {
    this.files.push(file);
    for await (const item of file.read()) {
      const problem = this.#take(item);
      if (problem !== undefined && this.#brokenCount++ < NAMED_BROKEN)
        this.#broken.push({ file: file.name, place: item.place, problem });
      if (++this.#items % 1000 === 0) onRead?.(this.#items);
      if (signal?.aborted) return;
    }
  }

  /** @returns the problem of a broken item */
  #take(item: Item): string | undefined {
    if (item.kind === "broken") return item.problem;
    if (item.kind === "text") return this.#entry(textEntry(item.text));
    const { value } = item;
    if (typeof value !== "object" || value === null || Array.isArray(value)) return "not a JSON object";
    if (!("sequence" in value && "requestId" in value)) return this.#entry(this.#fields.entry({ ...value }));
    const record = recordOf(value);
    if (typeof record === "string") return record;
    this.records++;
    this.comparison.add(record);
    return undefined;
  }

  #entry(entry: ReturnType<typeof textEntry>): string | undefined {
    if (typeof entry === "string") return entry;
    this.log.add(entry);
    return undefined;
  }
}

async function trafficStudy(log: AccessLog, source: ConfigSource, options: ReplayOptions): Promise<TrafficStudy> {
  const preset = options.preset ?? presetNamed(USUAL_PRESET)!;
  const { promptTokens, seeds = [1], signal, onProgress } = options;
  const { summary, outside, definition } = recordedTraffic(log.requests, { preset, promptTokens });
  const named = summary.upstreams.length;
  if (options.servers === undefined && named === 0)
    throw new SluiceError(
      "FLAG_MISSING",
      "the access log names no upstreams: give the number of servers with --servers",
    );
  const servers = options.servers ?? Math.min(named, MAX_SERVERS);
  const rate = options.rate ?? definition.rates[0]!;
  const planned = {
    definition: { ...definition, servers },
    ...{ rates: [rate], servers, preset, scrapeIntervalMs: SCRAPE_INTERVAL, metricsLagMs: 0 },
    durationMs: Math.ceil((definition.durationMs * definition.rates[0]!) / rate),
  };
  const study = await runStudy(
    { workloads: [planned], policies: policiesOf(source, options), seeds, samples: true },
    { ...(onProgress === undefined ? {} : { onProgress }), ...(signal === undefined ? {} : { signal }) },
  );
  const notes = [...summary.notes];
  if (servers === 1) notes.push("With one server there is no choice: give the number of servers with --servers.");
  if (servers < named) notes.push(`The log names ${named} upstreams; ${servers} are simulated.`);
  return { log: { ...summary, notes, skipped: log.skipped, beyond: log.beyond + outside }, study };
}

/** The policies of a replay: the usual ones, and the configuration to try. */
function policiesOf(source: ConfigSource, { policies }: ReplayOptions): readonly Policy[] {
  const { configFile, configText, profile } = source;
  const tried =
    configFile === undefined ? (profile ?? (configText === undefined ? "default" : "tried")) : basename(configFile);
  const others = policies ?? POLICIES.filter(({ name }) => USUAL_POLICIES.includes(name));
  const builtIn = configFile === undefined && configText === undefined;
  // A file may have the name of a policy.
  const taken = !builtIn && others.some(({ name }) => name === tried);
  const name = taken ? `./${tried}` : tried;
  return [...others.filter((other) => other.name !== name), { name, about: "the configuration that is tried", source }];
}

function nothing(
  files: readonly string[],
  { count, first }: ReplayStudy["broken"],
  { skipped }: AccessLog,
): SluiceError {
  const [where, has] = files.length === 1 ? [files[0]!, "has"] : [`the ${files.length} files`, "have"];
  if (skipped.length > 0) {
    const what = skipped.map((one) => `${one.count} x ${one.what}`).join(", ");
    return new SluiceError(
      "REPLAY_INPUT",
      `${where} ${has} nothing to replay: ${what}. From an access log, Sluice plays only POSTs to inference paths with a 2xx answer`,
    );
  }
  const [broken] = first;
  const problem = broken === undefined ? "no line has an entry" : unreadable(count, broken, files.length > 1);
  return new SluiceError(
    "REPLAY_INPUT",
    `${where} ${has} nothing to replay: ${problem}. Give records of \`sluice explain --all --full\`, or an access log ` +
      "(JSON lines, Envoy's default format, Common or Combined Log Format)",
  );
}

/** @param file whether the reader needs the name of the file */
function unreadable(count: number, { file, place, problem }: BrokenItem, named: boolean): string {
  const at = named ? `${place} of ${file}` : place;
  // The advice behind it lists the formats.
  const why = problem === UNKNOWN_FORMAT ? "" : ` (${problem})`;
  return count === 1
    ? `1 line cannot be read: ${at}${why}`
    : `${grouped(count)} lines cannot be read; the first is ${at}${why}`;
}
