import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { parse } from "yaml";
import { onPath } from "../../scripts/part-cache.ts";
import { prometheus } from "../../scripts/test-parts.ts";
import { ROOT } from "../support/process.ts";

// The alerts about dispatchers and batches, evaluated by Prometheus' own tool on made-up series.

const FILES = ["helm/sluice-dispatch/alerts.yaml", "helm/sluice-gateway/batch-alerts.yaml"].map((file) =>
  join(ROOT, "deploy", file),
);

interface Rule {
  readonly alert: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
}

function rulesOf(file: string): Rule[] {
  return (parse(readFileSync(file, "utf8")) as { groups: { rules: Rule[] }[] }).groups.flatMap(({ rules }) => rules);
}

const rules = FILES.flatMap(rulesOf);

/** It comes with Prometheus. */
function promtool(...args: readonly string[]): { status: number | null; text: string } {
  const beside = join(dirname(prometheus()), "promtool");
  const { status, stdout, stderr } = spawnSync(existsSync(beside) ? beside : onPath("promtool")!, args, {
    encoding: "utf8",
  });
  return { status, text: stdout + stderr };
}

/** A series from its begin on, a sample a minute, in the notation of promtool. */
type Series = Readonly<Record<string, string>>;

interface Case {
  readonly alert: string;
  readonly what: string;
  readonly series: Series;
  /** When it is looked at. */
  readonly at: string;
  /** Labels that the alert has then; undefined = it does not fire. */
  readonly fires?: Readonly<Record<string, string>>;
}

const Q = '{job="d",namespace="n",pool_name="p",queue_id="q",queue_name="q"}';
const PER_QUEUE = { namespace: "n", queue_name: "q" };
const IN_POOL = { ...PER_QUEUE, pool_name: "p" };
const metric = (name: string, labels = Q): string => `llm_d_async_async_${name}${labels}`;
const counters = (over: Series): Series => ({
  [metric("request_total")]: "0+60x120",
  [metric("successful_requests_total")]: "0+60x120",
  [metric("failed_requests_total")]: "0x120",
  [metric("exceeded_deadline_requests_total")]: "0x120",
  [metric("request_retries_total")]: "0x120",
  [metric("broker_backlog")]: "5x120",
  ...over,
});
const quiet = { [metric("successful_requests_total")]: "7x120" };
const GATE = '{inference_pool="i",job="d",namespace="n",pool_name="p",queue_id="q",queue_name="q"}';

const EVENTS = (outcome: string): string =>
  `sluice_batch_webhook_events_total{job="d",namespace="n",outcome="${outcome}"}`;
const FAILED = 'sluice_batch_webhook_failed_attempts_total{job="d",namespace="n"}';

const CASES: readonly Case[] = [
  {
    ...{ alert: "SluiceBatchWebhookGivenUp", what: "one more event", at: "40m", fires: { namespace: "n" } },
    series: { [EVENTS("given_up")]: "3x35 4x60" },
  },
  {
    ...{ alert: "SluiceBatchWebhookGivenUp", what: "the first event, with a new series", at: "40m" },
    ...{ series: { [EVENTS("given_up")]: "_x35 1x60" }, fires: { namespace: "n" } },
  },
  {
    ...{ alert: "SluiceBatchWebhookGivenUp", what: "events of another day", at: "40m" },
    series: { [EVENTS("given_up")]: "4x60" },
  },
  {
    ...{ alert: "SluiceBatchWebhookFails", what: "no attempt succeeds", at: "60m", fires: { namespace: "n" } },
    series: { [FAILED]: "0+1x60", [EVENTS("delivered")]: "7x60" },
  },
  {
    ...{ alert: "SluiceBatchWebhookFails", what: "some attempts fail", at: "60m" },
    series: { [FAILED]: "0+1x60", [EVENTS("delivered")]: "0+3x60" },
  },
  {
    ...{ alert: "SluiceDispatchDown", what: "the last dispatcher is gone", at: "60m", fires: {} },
    series: { [metric("pool_worker_limit", '{job="d",namespace="n",pool_name="p",pod="a"}')]: "8x5 _x60" },
  },
  {
    ...{ alert: "SluiceDispatchDown", what: "one of two dispatchers is gone", at: "16m" },
    series: {
      [metric("pool_worker_limit", '{job="d",namespace="n",pool_name="p",pod="a"}')]: "8x8 _x60",
      [metric("pool_worker_limit", '{job="d",namespace="n",pool_name="p",pod="b"}')]: "8x60",
    },
  },
  {
    ...{ alert: "SluiceDispatchStoreUnreadable", what: "reads of the backlog fail", at: "15m", fires: PER_QUEUE },
    series: { [metric("broker_backlog_poll_errors_total")]: "0+4x60" },
  },
  {
    ...{ alert: "SluiceDispatchStoreUnreadable", what: "one read failed", at: "15m" },
    series: { [metric("broker_backlog_poll_errors_total")]: "0 1x60" },
  },
  {
    ...{ alert: "SluiceDispatchGateUnreadable", what: "the metric of a gate is away", at: "15m" },
    ...{
      series: { [metric("gate_metric_source_available", GATE)]: "1x5 0x60" },
      fires: { ...IN_POOL, inference_pool: "i" },
    },
  },
  {
    ...{ alert: "SluiceDispatchGateUnreadable", what: "the metric of a gate was away for a moment", at: "8m" },
    series: { [metric("gate_metric_source_available", GATE)]: "1 0 0 1x60" },
  },
  {
    ...{ alert: "SluiceDispatchNothingSettled", what: "messages wait and none ends", at: "60m", fires: PER_QUEUE },
    series: counters(quiet),
  },
  {
    ...{ alert: "SluiceDispatchNothingSettled", what: "messages wait and some end", at: "60m" },
    series: counters({}),
  },
  {
    ...{ alert: "SluiceDispatchNothingSettled", what: "no message waits", at: "60m" },
    series: counters({ ...quiet, [metric("broker_backlog")]: "0x120" }),
  },
  {
    ...{ alert: "SluiceDispatchNothingSettled", what: "messages wait and end too late", at: "60m" },
    series: counters({ ...quiet, [metric("exceeded_deadline_requests_total")]: "0+1x120" }),
  },
  {
    ...{ alert: "SluiceDispatchNothingSettled", what: "some end, and the other counters are not there yet", at: "60m" },
    series: { [metric("broker_backlog")]: "5x120", [metric("failed_requests_total")]: "0+1x120" },
  },
  {
    ...{ alert: "SluiceDispatchNothingSettled", what: "a dispatcher that has just started", at: "10m" },
    series: counters(quiet),
  },
  {
    ...{ alert: "SluiceDispatchBacklogOld", what: "a message waits for seven hours", at: "20m", fires: PER_QUEUE },
    series: { [metric("oldest_message_age_seconds")]: "25200x60" },
  },
  {
    ...{ alert: "SluiceDispatchBacklogOld", what: "a message waits for five hours", at: "20m" },
    series: { [metric("oldest_message_age_seconds")]: "18000x60" },
  },
  {
    ...{
      alert: "SluiceDispatchDeadlinesMissed",
      what: "half of the messages are too late",
      at: "60m",
      fires: PER_QUEUE,
    },
    series: counters({ [metric("exceeded_deadline_requests_total")]: "0+60x120" }),
  },
  {
    ...{ alert: "SluiceDispatchDeadlinesMissed", what: "one in twenty is too late", at: "60m" },
    series: counters({ [metric("exceeded_deadline_requests_total")]: "0+3x120" }),
  },
  {
    ...{ alert: "SluiceDispatchFailures", what: "every second answer is an error", at: "60m", fires: PER_QUEUE },
    series: counters({ [metric("failed_requests_total")]: "0+60x120" }),
  },
  {
    ...{ alert: "SluiceDispatchFailures", what: "one answer in twenty is an error", at: "60m" },
    series: counters({ [metric("failed_requests_total")]: "0+3x120" }),
  },
  {
    ...{ alert: "SluiceDispatchRetries", what: "as many retries as requests", at: "60m", fires: PER_QUEUE },
    series: counters({ [metric("request_retries_total")]: "0+60x120" }),
  },
  {
    ...{ alert: "SluiceDispatchRetries", what: "few retries", at: "60m" },
    series: counters({ [metric("request_retries_total")]: "0+6x120" }),
  },
  {
    ...{ alert: "SluiceDispatchLatched", what: "the latch stays", at: "30m", fires: IN_POOL },
    series: { [metric("overload_latch")]: "1x60" },
  },
  {
    ...{ alert: "SluiceDispatchLatched", what: "the latch comes and goes", at: "30m" },
    series: { [metric("overload_latch")]: "1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1" },
  },
  {
    ...{ alert: "SluiceDispatchDeadLetters", what: "a message becomes a dead letter", at: "12m", fires: PER_QUEUE },
    series: { [metric("dead_lettered_total")]: "0x5 1x60" },
  },
  {
    ...{ alert: "SluiceDispatchDeadLetters", what: "the first dead letter of a process", at: "12m", fires: PER_QUEUE },
    series: { [metric("dead_lettered_total")]: "_x5 1x60" },
  },
  {
    ...{ alert: "SluiceDispatchDeadLetters", what: "the first dead letter of a process, half an hour ago", at: "40m" },
    series: { [metric("dead_lettered_total")]: "_x5 1x60" },
  },
  {
    ...{ alert: "SluiceDispatchDeadLetters", what: "dead letters of yesterday", at: "40m" },
    series: { [metric("dead_lettered_total")]: "9x60" },
  },
  {
    ...{ alert: "SluiceDispatchStoreLostData", what: "leases had to be made again", at: "12m", fires: PER_QUEUE },
    series: { [metric("leases_recovered_total")]: "0x5 3x60", [metric("results_recovered_total")]: "0x60" },
  },
  {
    ...{ alert: "SluiceDispatchStoreLostData", what: "results were written again", at: "12m", fires: PER_QUEUE },
    series: { [metric("results_recovered_total")]: "_x5 1x60" },
  },
  {
    ...{ alert: "SluiceDispatchStoreLostData", what: "data was lost an hour ago", at: "70m" },
    series: { [metric("results_recovered_total")]: "_x5 1x100", [metric("leases_recovered_total")]: "_x5 1x100" },
  },
  {
    ...{ alert: "SluiceDispatchStoreLostData", what: "nothing was lost", at: "12m" },
    series: { [metric("leases_recovered_total")]: "0x60", [metric("results_recovered_total")]: "0x60" },
  },
];

describe("the alerts of deploy/", () => {
  it("are in rule files that Prometheus takes", () => {
    for (const file of FILES) {
      const { status, text } = promtool("check", "rules", file);
      expect(status, text).toBe(0);
      expect(text).toContain(`${rulesOf(file).length} rules found`);
    }
  });

  it("has a case that fires and one that does not for each alert", () => {
    for (const { alert } of rules) {
      const cases = CASES.filter((each) => each.alert === alert);
      expect(
        cases.some(({ fires }) => fires === undefined),
        alert,
      ).toBe(true);
      expect(
        cases.some(({ fires }) => fires !== undefined),
        alert,
      ).toBe(true);
    }
    expect(CASES.every(({ alert }) => rules.some((rule) => rule.alert === alert))).toBe(true);
  });

  it.each(CASES)("$alert: $what", ({ alert, series, at, fires }) => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-alerts-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    // Annotations are told by the description of the rule; here only whether it fires counts.
    const of = FILES.find((file) => rulesOf(file).some((rule) => rule.alert === alert))!;
    const plain = parse(readFileSync(of, "utf8")) as { groups: { rules: Record<string, unknown>[] }[] };
    for (const { rules } of plain.groups) for (const rule of rules) delete rule["annotations"];
    writeFileSync(join(folder, "rules.yaml"), JSON.stringify(plain));
    const { labels } = rules.find((rule) => rule.alert === alert)!;
    const expected = fires === undefined ? [] : [{ exp_labels: { ...labels, ...fires } }];
    const test = {
      rule_files: ["rules.yaml"],
      evaluation_interval: "1m",
      tests: [
        {
          interval: "1m",
          input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
          alert_rule_test: [{ eval_time: at, alertname: alert, exp_alerts: expected }],
        },
      ],
    };
    writeFileSync(join(folder, "test.yaml"), JSON.stringify(test));
    const { status, text } = promtool("test", "rules", join(folder, "test.yaml"));
    expect(status, text).toBe(0);
  });
});
