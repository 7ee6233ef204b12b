import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, chat, JSON_HEADERS } from "../support/client.ts";
import { ExtProcClient, exchange } from "../support/epp-process.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { ROOT } from "../support/process.ts";
import { type RunningPrometheus, startPrometheus } from "../support/prometheus.ts";
import { type Epp, endpointsFile, type Sim, startEpp, startSims } from "../support/stack.ts";

const FOLDER = join(ROOT, "deploy", "grafana");

let sims: Sim[];
let epp: Epp;
let gateway: TestGateway;
let prometheus: RunningPrometheus;

beforeAll(async () => {
  sims = await startSims(2);
  const endpoints = endpointsFile(sims.map(({ port }) => port));
  [epp, gateway] = await Promise.all([startEpp(endpoints), startGateway(endpoints)]);
  const targets = [epp.adminUrl, gateway.adminUrl].map((url) => new URL(url).host);
  prometheus = await startPrometheus({ targets, scrapeIntervalMs: 250 });
  // A rate needs two samples with something between them.
  await prometheus.values("count(llm_d_epp_ready_endpoints > 0) >= 2");
  for (let round = 0; round < 2; round++) {
    const client = await ExtProcClient.connect(epp.port);
    await exchange(client, '{"usage":{"prompt_tokens":7,"completion_tokens":5}}');
    client.close();
    for (const stream of [true, false]) {
      const body = JSON.stringify({ ...JSON.parse(chat("hello")), stream, stream_options: { include_usage: true } });
      await ask(`${gateway.url}/v1/chat/completions`, { method: "POST", headers: JSON_HEADERS, body });
    }
    await ask(`${gateway.url}/v1/chat/completions`, { method: "POST", headers: JSON_HEADERS, body: "{" });
    await prometheus.values(`sum(llm_d_epp_request_total) >= ${3 * (round + 1)}`);
  }
});
afterAll(async () => {
  await Promise.all([prometheus?.stop(), epp?.process.stop(), gateway?.process.stop()]);
  await Promise.all((sims ?? []).map((sim) => sim.process.stop()));
});

interface Board {
  readonly panels: readonly { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }[];
}

/** What Prometheus answers to a panel's expression, with values for the variables. */
async function answer(expr: string): Promise<{ status: string; error?: string; data?: { result: unknown[] } }> {
  const filled = expr.replaceAll("$__rate_interval", "30s").replace(/=~?"\$\w+"/g, '=~".+"');
  const response = await fetch(`${prometheus.url}/api/v1/query?query=${encodeURIComponent(filled)}`);
  return (await response.json()) as Awaited<ReturnType<typeof answer>>;
}

describe.each(readdirSync(FOLDER))("%s", (file) => {
  const { panels } = JSON.parse(readFileSync(join(FOLDER, file), "utf8")) as Board;
  const asked = panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => [title, expr] as const));

  it("asks nothing that Prometheus does not understand", async () => {
    for (const [title, expr] of asked) {
      const { status, error } = await answer(expr);
      expect([status, error], `${title}: ${expr}`).toEqual(["success", undefined]);
    }
    expect(asked.length).toBeGreaterThan(20);
  });
});

/** Panels that are empty while nothing is wrong, or for features that this test has none of. */
const EMPTY = [
  ...["Shed", "Rewrites", "Disaggregated serving", "Undeclared data", "Failed decisions"],
  ...[
    "Queued, by band and flow",
    "Queued bytes",
    "Time in the queue, by outcome",
    "Capacity",
    "Refused by flow control",
  ],
];

it("shows something on every panel of a picker and a gateway that had requests", async () => {
  const { panels } = JSON.parse(readFileSync(join(FOLDER, "sluice-epp.json"), "utf8")) as Board;
  await poll("every panel to show something", async () => {
    const bare: string[] = [];
    for (const { title, targets = [] } of panels) {
      if (targets.length === 0 || EMPTY.includes(title)) continue;
      const answers = await Promise.all(targets.map(({ expr }) => answer(expr)));
      if (answers.every(({ data }) => data?.result.length === 0)) bare.push(title);
    }
    if (bare.length > 0) throw new Error(bare.join(", "));
    return true;
  });
});
