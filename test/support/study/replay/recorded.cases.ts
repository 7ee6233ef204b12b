import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SeededRandom } from "../../../../src/base/clock/random.ts";
import { VirtualClock } from "../../../../src/base/clock/virtual.ts";
import { parseDocument } from "../../../../src/base/document/parse.ts";
import type { DecisionRecord } from "../../../../src/base/inference/decision-record.ts";
import { HeaderList } from "../../../../src/base/inference/headers.ts";
import { Rejection } from "../../../../src/base/inference/outcomes.ts";
import { silentLogger } from "../../../../src/base/telemetry/logger.ts";
import { configFingerprint } from "../../../../src/picker/config/fingerprint.ts";
import { loadConfig } from "../../../../src/picker/config/load.ts";
import { instancesOf, planOf } from "../../../../src/picker/core/plan.ts";
import { PLUGIN_REGISTRY } from "../../../../src/picker/core/plugins/plugins.ts";
import { recordJson } from "../../../../src/picker/decisions/explain-record.ts";
import { Scheduler } from "../../../../src/picker/scheduling/scheduler.ts";
import { endpointOf, type FakeEndpoint, requestOf } from "../../scheduling/fakes.cases.ts";

/** A configuration of one profile with these plugins, each as `type` or `type: weight`. */
export function configOf(...members: readonly string[]): string {
  const plugins = members.map((member) => member.split(":") as [string, string?]);
  return `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
${plugins.map(([type]) => `- type: ${type}\n`).join("")}schedulingProfiles:
- name: p
  plugins:
${plugins.map(([type, weight]) => `  - {pluginRef: ${type}${weight === undefined ? "" : `, weight: ${weight}`}}\n`).join("")}`;
}

/** Drops servers on which somebody waits, and refuses where that are all. */
export const IMPATIENT = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: utilization-filter
  parameters: {conditions: [{metric: waiting-queue, maxValue: 5}]}
schedulingProfiles:
- name: p
  plugins:
  - {pluginRef: utilization-filter}
`;

/** The fingerprint of a configuration. */
export function hashOf(configText: string): string {
  return configFingerprint(loadConfig(parseDocument(configText, { file: "config.yaml" }), PLUGIN_REGISTRY));
}

export interface RecordedRun {
  /** "" = the built-in one. */
  readonly config?: string;
  readonly decisions?: number;
  readonly seed?: number;
  readonly headers?: readonly (readonly [string, string])[];
  /** Where the pool is not drawn. */
  readonly pool?: readonly FakeEndpoint[];
  /** One in so many is kept in full; default all. */
  readonly fullEvery?: number;
}

/** Decisions of the real scheduler over a pool of four whose loads change by chance, recorded, oldest first. */
export function recordedRun(run: RecordedRun = {}): readonly DecisionRecord[] {
  const { config = "", decisions = 50, seed = 1, headers = [], fullEvery = 1 } = run;
  const clock = new VirtualClock(Date.UTC(2026, 0, 1));
  const random = new SeededRandom(seed);
  const document = config === "" ? undefined : parseDocument(config, { file: "config.yaml" });
  const loaded = loadConfig(document, PLUGIN_REGISTRY);
  const plan = planOf(loaded, instancesOf(loaded, { clock, random, log: silentLogger }));
  const scheduler = new Scheduler({ plan, clock, random, fullEvery });
  const draw = new SeededRandom(seed + 1000);
  const records: DecisionRecord[] = [];
  for (let i = 0; i < decisions; i++) {
    clock.advance(50);
    const pool =
      run.pool ??
      Array.from({ length: 4 }, () => ({
        metrics: { waiting: draw.below(8), running: draw.below(8), kvUsage: draw.next() },
        inFlight: { requests: draw.below(9), tokens: draw.below(9000) },
      }));
    const endpoints = pool.map((one, slot) =>
      endpointOf(slot, { ...one, metrics: { scrapedAt: clock.now(), ...one.metrics } }),
    );
    const prompt = `${"shared beginning ".repeat(60)}${draw.below(5)} ${"and the rest ".repeat(draw.below(40))}`;
    const answer = scheduler.schedule(
      requestOf(prompt, { id: `r${i}`, headers: HeaderList.of(headers) }),
      endpoints,
      0,
    );
    if (!(answer instanceof Rejection) && scheduler.records.newest!.top.length === 0) throw new Error("no pick");
    // The ring keeps 64 full ones.
    records.push(scheduler.records.newest!);
  }
  return records;
}

const FOLDER = mkdtempSync(join(tmpdir(), "sluice-replay-study-"));
let files = 0;

/** A file with this text. @returns its path */
export function savedText(text: string | Buffer, name = `${++files}.log`): string {
  const file = join(FOLDER, name);
  writeFileSync(file, text);
  return file;
}

/** Records as `sluice explain --all --full` prints them, however many. */
export function recordLines(records: readonly object[]): string {
  return records
    .map((record) => `${typeof record === "string" ? record : recordJson(record as DecisionRecord)}\n`)
    .join("");
}
