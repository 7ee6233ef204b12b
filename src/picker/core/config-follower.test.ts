import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { poll } from "../../../test/support/poll.ts";
import { slowRead } from "../../../test/support/slow-exposition.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { fileSignature } from "../../base/document/folder-watch.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { objectivesFromFlags } from "../../pool/resources/objectives.ts";
import { followConfig } from "./config-follower.ts";
import { checkedConfig } from "./config-source.ts";
import { InferenceCore } from "./inference-core.ts";

const config = (profile: string, weight = 1, more = ""): string => `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: prefix-cache-scorer
schedulingProfiles:
- name: ${profile}
  plugins:
  - {pluginRef: queue-scorer, weight: ${weight}}
  - {pluginRef: prefix-cache-scorer, weight: 3}
${more}`;

let folder = "";
const stops: (() => void)[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-config-"));
});

afterEach(() => {
  for (const stop of stops.splice(0)) stop();
  rmSync(folder, { recursive: true, force: true });
});

/** A core whose configuration is followed, and what was logged. */
async function following(text: string) {
  const file = join(folder, "config.yaml");
  writeFileSync(file, text);
  const lines: string[] = [];
  const told: unknown[] = [];
  const note = (fields: unknown, message: string): void => {
    lines.push(message);
    told.push(fields);
  };
  const log: Logger = { ...silentLogger, info: note, warn: note, error: note };
  const read = (text?: string) => checkedConfig({ configFile: file }, log, text);
  const seen = await fileSignature(file);
  const first = await read();
  const core = new InferenceCore({
    clock: realClock,
    random: new SeededRandom(1),
    config: first,
    models: { objectives: objectivesFromFlags([]) },
    staleness: 2000,
    ignoreSubset: false,
    log: silentLogger,
  });
  for (let i = 0; i < 3; i++)
    core.endpoints.upsert({
      ...{ namespace: "default", name: `pod-${i}`, address: `10.0.0.${i + 1}`, port: 8000, rank: 0, labels: {} },
    });
  stops.push(await followConfig({ file, config: first, seen, core, log, read }));
  return { file, core, lines, told };
}

/** Sends a request and returns the record of its decision. */
function decide(core: InferenceCore) {
  const exchange = core.openExchange({ pauseRequest() {}, resumeRequest() {}, evict() {} });
  exchange.requestHeaders(HeaderList.of([[":path", "/v1/completions"]]), false);
  const body = Buffer.from(JSON.stringify({ model: "m", prompt: "the same words every time ".repeat(40) }));
  expect(exchange.requestBody(body, true)).not.toBeInstanceOf(Rejection);
  exchange.end("complete");
  return core.records.newest!;
}

const metric = (core: InferenceCore, name: string): number =>
  slowRead(Buffer.from(render(core.registry, "text"))).find(({ sample }) => sample?.name === name)?.sample?.value ??
  Number.NaN;

describe("the configuration file is followed", () => {
  it("a new one is in force from the next request on, and the prefix index goes on with what it knows", async () => {
    const { file, core, lines, told } = await following(config("one"));
    const before = decide(core);
    expect(before).toMatchObject({ profile: "one", configHash: expect.stringMatching(/^[0-9a-f]{12}$/) });
    // As a mounted ConfigMap changes: something else takes the name.
    writeFileSync(join(folder, "next"), config("two", 0.5));
    renameSync(join(folder, "next"), file);
    await poll("the new profile", () => decide(core).profile === "two");
    const after = decide(core);
    expect(after.configHash).not.toBe(before.configHash);
    expect(after.top[0]?.id).toBe(before.top[0]?.id);
    // All of the prompt is still believed to be where the first request went.
    expect(after.top[0]?.scores[1]).toBe(1);
    expect(told[lines.indexOf("Sluice uses the changed configuration")]).toMatchObject({
      configuration: after.configHash,
    });
    expect(metric(core, "sluice_config_refused")).toBe(0);
    expect(render(core.registry, "text")).toMatch(
      /sluice_config_reloads_total\{result="applied"\} 1\nsluice_config_reloads_total\{result="refused"\} 0/,
    );
  });

  it("a broken one leaves the old one in force and says what is wrong with it, until it is mended", async () => {
    const { file, core, lines } = await following(config("one"));
    writeFileSync(file, config("two", 1, "schedulingProfile: []\n"));
    await poll("the refusal", () => lines.some((line) => line.includes("keeps the old configuration")));
    expect(lines.at(-1)).toMatch(
      /config\.yaml:11:1: schedulingProfile: unknown key `schedulingProfile`; did you mean `schedulingProfiles`\?/,
    );
    expect(decide(core).profile).toBe("one");
    expect(metric(core, "sluice_config_refused")).toBe(1);
    writeFileSync(file, config("three"));
    await poll("the new profile", () => decide(core).profile === "three");
    expect(metric(core, "sluice_config_refused")).toBe(0);
  });

  it("lists the lines in which a change differs from the text in force, also when the change is refused", async () => {
    const { file, core } = await following(config("one"));
    const newest = () => core.watch.reloads.list()[0];
    writeFileSync(file, config("two"));
    await poll("the reload", () => newest()?.result === "applied");
    expect(newest()!.difference).toEqual(["- - name: one", "+ - name: two"]);
    writeFileSync(file, config("two", 1, "{\n"));
    await poll("the refusal", () => newest()!.result === "refused");
    expect(newest()!.difference).toEqual(["+ {"]);
    rmSync(file);
    await poll("the refusal of a file that is gone", () => newest()!.problems.includes("does not exist"));
    expect(newest()!.difference).toContain("- - name: two");
  });

  it("names every problem of a broken one", async () => {
    const { file, lines } = await following(config("one"));
    const wrong = Array.from({ length: 40 }, (_, i) => `whatIsThis${i}: ${"x".repeat(40)}\n`);
    writeFileSync(file, config("two", 1, wrong.join("")));
    await poll("the refusal", () => lines.some((line) => line.includes("keeps the old configuration")));
    for (let i = 0; i < 40; i++) expect(lines.at(-1)).toContain(`config.yaml:${11 + i}:1: whatIsThis${i}: unknown key`);
  });

  it("says what takes effect with the next start only, as long as it differs from what the process began with", async () => {
    const { file, core, lines } = await following(config("one"));
    writeFileSync(file, config("two", 1, "dataLayer: {injectDefaults: false}\n"));
    await poll("the new profile", () => decide(core).profile === "two");
    await poll("the warning", () => lines.some((line) => line.startsWith("changes under dataLayer")));
    lines.length = 0;
    writeFileSync(file, config("three"));
    await poll("the third profile", () => decide(core).profile === "three");
    await poll("the line of it", () => lines.includes("Sluice uses the changed configuration"));
    expect(lines.filter((line) => line.startsWith("changes under dataLayer"))).toEqual([]);
  });
});
