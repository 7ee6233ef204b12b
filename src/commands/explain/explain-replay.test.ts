import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { TestCore, type TestEndpoint } from "../../../test/support/core.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import type { DecisionRecord } from "../../base/inference/decision-record.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { recordJson } from "../../picker/decisions/explain-record.ts";
import type { Wire } from "../../picker/exchange/wire.ts";
import { type ReplayReport, replayFile, replayText } from "./explain-replay.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "sluice-replay-"));
let files = 0;
const NO_WIRE: Wire = { pauseRequest() {}, resumeRequest() {}, evict() {} };

const CONFIG = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 1}
  - {pluginRef: prefix-cache-scorer, weight: 3}
`;

/** A decision that was kept in full. @param config "" = the built-in one */
function decided(endpoints: readonly TestEndpoint[], config = CONFIG): DecisionRecord {
  const core = new TestCore({ endpoints, decisionHeader: true, ...(config === "" ? {} : { config }) });
  const exchange = core.openExchange(NO_WIRE);
  const headers = [
    [":path", "/v1/chat/completions"],
    ["x-request-id", "r"],
    ["x-sluice-explain", "1"],
  ] as const;
  exchange.requestHeaders(HeaderList.of(headers), false);
  void exchange.requestBody(Buffer.from(chatBody("the secret prompt")), true);
  return core.scheduler.records.newest!;
}

function saved(record: DecisionRecord): string {
  const file = join(FOLDER, `${++files}.json`);
  writeFileSync(file, recordJson(record));
  return file;
}

/** An idle server with a full cache, and a busy one with an empty cache. */
const POOL = [{ metrics: { waiting: 0, kvUsage: 0.9 } }, { metrics: { waiting: 9, kvUsage: 0.1 } }];

describe("a decision made again", () => {
  it("comes out the same with the configuration that decided, from a file without the prompt", async () => {
    const record = decided([...POOL, ...Array.from({ length: 30 }, () => ({}))]);
    const file = saved(record);
    expect(recordJson(record)).not.toContain("secret");
    const report = await replayFile(file, { configText: CONFIG });
    expect(report).toMatchObject({ sequence: 1, requestId: "r", same: true, differences: [], missing: [] });
    expect(report.configHash.recorded).toBe(report.configHash.replayed);
    expect(replayText(report)).toMatch(
      /^Decision 1 replayed with --config-text:\nsame pick, and all totals agree bit by bit\.\nNow: Request r went to /,
    );
    expect(await replayFile(saved(decided(POOL, "")), {})).toMatchObject({
      ...{ same: true, configuration: "built-in configuration" },
    });
  });

  it("tells what another configuration would have done, and that it is another one", async () => {
    const record = decided(POOL);
    expect(record.top[0]!.id).toBe("default/pod-1");
    const other = CONFIG.replace("queue-scorer, weight: 2", "queue-scorer, weight: 0.5");
    const report = await replayFile(saved(record), { configText: other });
    expect(report.same).toBe(false);
    expect(report.differences).toContain("the pick was default/pod-1, now it is default/pod-2");
    const text = replayText(report);
    expect(text).toContain("\n  the pick was default/pod-1, now it is default/pod-2\n");
    expect(text).toMatch(/The configurations differ: recorded [0-9a-f]{12}, now [0-9a-f]{12}/);
    expect(text).toContain("Now: Request r went to default/pod-2");
  });

  it("says which data the record lacks", async () => {
    const record = decided(POOL);
    const { columns, ...full } = record.full!;
    const [first, ...others] = Object.entries(columns);
    const lacking = { ...JSON.parse(recordJson(record)), full: { ...full, columns: Object.fromEntries(others) } };
    const { missing, ...report } = await replayFile(saved(lacking), { configText: CONFIG });
    expect(missing).toEqual([first![0]]);
    expect(replayText({ ...report, missing })).toContain(`The record has no value of ${first![0]}, which this`);
  });

  it("refuses a request that was refused before anything was computed", async () => {
    const record = decided(POOL);
    const early = { ...JSON.parse(recordJson(record)), full: { ...record.full!, screened: [], columns: {} } };
    await expect(replayFile(saved(early), {})).rejects.toMatchObject({
      code: "RECORD_NOT_REPLAYABLE",
      message: expect.stringContaining("refused the request before it computed anything"),
    });
    await expect(
      replayFile(saved({ ...record, top: [], full: undefined } as DecisionRecord), {}),
    ).rejects.toMatchObject({
      code: "RECORD_NOT_FULL",
    });
  });

  it("lists twenty differences and counts the rest (bound)", () => {
    const report: ReplayReport = {
      ...{ sequence: 1, requestId: "r", configuration: "c", configHash: { recorded: "", replayed: "x" }, same: false },
      ...{ differences: Array.from({ length: 23 }, (_, i) => `d${i}`), missing: [], sentence: "s\u001b[2J" },
    };
    const text = replayText(report);
    expect(text).toContain("  d19\n  and 3 further differences\nNow: s?[2J\n");
    expect(text).not.toContain("d20");
  });
});
