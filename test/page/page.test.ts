import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { takeAxe, violations } from "../support/axe.ts";
import { startChromium } from "../support/chromium.ts";
import { ask, chat, JSON_HEADERS } from "../support/client.ts";
import { freePort } from "../support/free-port.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { fixedLimit } from "../support/slowness.ts";
import { type Sim, startSims } from "../support/stack.ts";

/** The default, for one label alone. */
const CONFIG = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: label-selector-filter, parameters: {matchLabels: {tier: gold}}}
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: active-request-scorer
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: label-selector-filter}
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: active-request-scorer, weight: 2}
`;
const LIMITS = `rules:
- { key: "*", requestsPerMinute: 600, tokensPerMinute: 200000, inFlight: 50 }
- { model: sim, requestsPerMinute: 60 }
`;
const FOLDER = mkdtempSync(join(tmpdir(), "sluice-page-"));
/** The pictures of a run are kept here: an artifact of CI. */
const SCREENSHOTS = process.env["SLUICE_SCREENSHOTS"] ?? FOLDER;
mkdirSync(SCREENSHOTS, { recursive: true });
const file = (name: string, text: string): string => {
  writeFileSync(join(FOLDER, name), text);
  return join(FOLDER, name);
};

/** The number in an element, without its separators. */
const numberIn = async (page: Page, selector: string): Promise<number> =>
  Number((await page.locator(selector).first().textContent())?.replace(/\D/g, ""));

/** The sum of a metric over its series whose labels have `part`. */
function metric(text: string, name: string, part = ""): number {
  return text
    .split("\n")
    .filter((line) => (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && line.includes(part))
    .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

describe("the page of a gateway, in Chromium", () => {
  let sims: Sim[];
  let gateway: TestGateway;
  let browser: Browser;
  const problems: string[] = [];

  const send = (id: string, headers: Readonly<Record<string, string>> = {}) =>
    ask(`${gateway.url}/v1/chat/completions`, {
      headers: { ...JSON_HEADERS, "x-request-id": id, ...headers },
      body: chat("show me ".repeat(50)),
    });

  async function open(hash: string, options: BrowserContextOptions = {}): Promise<Page> {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, ...options });
    page.setDefaultTimeout(fixedLimit(30_000));
    page.on("pageerror", (error) => problems.push(String(error)));
    page.on("console", (message) => {
      if (message.type() === "error") problems.push(`${message.text()} ${message.location().url}`);
    });
    await page.goto(`${gateway.adminUrl}/${hash}`);
    await page.locator(".connection.live").waitFor();
    return page;
  }

  beforeAll(async () => {
    sims = await startSims(3);
    const entries = [...sims.map((sim) => sim.port), await freePort()].map(
      (port, i) =>
        `- { name: server-${i + 1}, address: 127.0.0.1, port: ${port}, labels: { tier: ${i === 2 ? "silver" : "gold"} } }`,
    );
    gateway = await startGateway(file("endpoints.yaml", `endpoints:\n${entries.join("\n")}\n`), [
      ...["--config-file", file("config.yaml", CONFIG), "--limits", file("limits.yaml", LIMITS)],
      ...["--full-records-every", "1"],
    ]);
    browser = await startChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.process.stop();
    await Promise.all((sims ?? []).map((sim) => sim.process.stop()));
    expect(problems).toEqual([]);
  });

  it("shows the figures of /metrics, as soon as requests have ended", async () => {
    const page = await open("");
    for (let i = 0; i < 12; i++) expect((await send(`figures-${i}`)).status).toBe(200);
    const { text } = await ask(`${gateway.adminUrl}/metrics`);
    const answered = metric(text, "sluice_exchanges_total", 'outcome="complete"');
    expect(answered).toBeGreaterThanOrEqual(12);
    await poll("the totals", async () => (await numberIn(page, '[data-total="answered"]')) === answered);
    const sums = [
      ["prompt", "llm_d_epp_request_input_tokens_sum"],
      ["output", "llm_d_epp_request_output_tokens_sum"],
      ["routed", "llm_d_epp_request_total"],
    ] as const;
    for (const [total, name] of sums)
      expect([total, await numberIn(page, `[data-total="${total}"]`)]).toEqual([total, metric(text, name)]);
    await page.screenshot({ path: join(SCREENSHOTS, "overview.png"), fullPage: true });
    await page.close();
  });

  it("shows endpoints with their state, and which were left out of decisions", async () => {
    await send("left-out");
    const page = await open("#/endpoints");
    const rows = page.getByRole("group", { name: "Endpoints" }).locator("tbody tr");
    await rows.nth(3).waitFor();
    expect(await rows.count()).toBe(4);
    expect(await rows.filter({ has: page.locator(".badge.bad") }).textContent()).toContain("ECONNREFUSED");
    const leftOut = page.getByRole("region", { name: "Left out of decisions" }).last();
    await leftOut.getByText("label-selector-filter").waitFor();
    expect(await leftOut.textContent()).toContain("the endpoint is down");
    // Filters by label and state, which the address keeps.
    await page.getByLabel("Label").selectOption("tier=silver");
    await poll("one row", async () => (await rows.count()) === 1);
    expect(page.url()).toContain("label=tier%3Dsilver");
    await page.getByLabel("Label").selectOption("");
    await page.getByRole("button", { name: "not up" }).click();
    await poll("one row", async () => (await rows.count()) === 1);
    await page.getByRole("link", { name: "default/server-4" }).first().click();
    await page.getByRole("heading", { name: "default/server-4" }).waitFor();
    await page.locator(".strip .bad").waitFor();
    await page.screenshot({ path: join(SCREENSHOTS, "endpoint.png"), fullPage: true });
    await page.close();
  });

  it("says why a request went where it went, what else could have been, and keeps the link", async () => {
    expect((await send("seen-on-the-page")).status).toBe(200);
    const page = await open("#/decisions");
    await page.getByLabel("request ID").fill("seen-on");
    await page.getByRole("link", { name: "seen-on-the-page" }).click();
    const candidates = page.getByRole("group", { name: "Candidates with their scores" });
    await candidates.waitFor();
    expect(await candidates.locator("tbody tr").count()).toBe(2);
    expect(await candidates.locator("thead").textContent()).toContain("prefix-cache × 3");
    expect(await candidates.locator(".stack").first().locator("i").count()).toBe(4);
    const funnel = await page.locator(".funnel").textContent();
    expect(funnel).toContain("3 candidates");
    expect(funnel).toContain("label-selector-filter removed 1: default/server-3");
    expect(await page.locator(".main").textContent()).toContain("left out 1 more endpoint that is down");
    expect(await page.locator(".steps").textContent()).toMatch(/received.*decided.*end/s);
    await page.getByRole("link", { name: "Permalink" }).click();
    await poll("the permalink", () => page.url().endsWith("#/decisions/seen-on-the-page"));

    // The scheduler runs in the browser: the same configuration gives the same pick, and another filter another one.
    await page.getByRole("button", { name: "Replay with another configuration" }).click();
    const outcome = page.locator(".outcome");
    await outcome.getByText("the pick is the same").waitFor();
    await page.locator(".profile li", { hasText: "label-selector-filter" }).getByText("parameters").click();
    await page
      .locator(".profile")
      .getByLabel("parameters of label-selector-filter")
      .fill('{"matchLabels":{"tier":"silver"}}');
    await outcome.getByText("The request would go to").waitFor();
    expect(await outcome.locator(".sentence").textContent()).toContain("default/server-3 in place of default/server-");
    await page.screenshot({ path: join(SCREENSHOTS, "decision.png"), fullPage: true });

    // The whole configuration as text: the process names the places of mistakes, and the browser replays what is right.
    await page.getByRole("button", { name: "YAML" }).click();
    const yaml = page.getByLabel("EndpointPickerConfig as YAML");
    expect(await yaml.inputValue()).toContain("kind: EndpointPickerConfig");
    await yaml.fill(CONFIG.replace("tier: gold", "tier: silver"));
    await outcome.getByText("The request would go to").waitFor();
    expect(await outcome.locator(".sentence").textContent()).toContain("default/server-3 in place of default/server-");
    await page.screenshot({ path: join(SCREENSHOTS, "yaml.png"), fullPage: true });
    await yaml.fill(CONFIG.replace("type: queue-scorer", "type: queue-scorr"));
    await page.getByText("plugin type queue-scorr is not registered").waitFor();
    expect(await outcome.count()).toBe(0);
    await page.getByRole("button", { name: "line 5, column 3" }).click();
    expect(await yaml.evaluate((field) => (field as unknown as { selectionStart: number }).selectionStart)).toBe(
      CONFIG.indexOf("type: queue-scorer"),
    );
    await page.getByRole("button", { name: "Current configuration" }).click();
    await outcome.getByText("the pick is the same").waitFor();
    // What was edited in the other way is still there.
    await page.getByRole("button", { name: "weights and parameters" }).click();
    await outcome.getByText("The request would go to").waitFor();
    await page.close();
  });

  it("has no violation of axe in the replay, as a form and as a text with mistakes", async () => {
    expect((await send("replayed")).status).toBe(200);
    const page = await open("#/decisions/replayed", { bypassCSP: true });
    await takeAxe(page);
    await page.getByRole("button", { name: "Replay with another configuration" }).click();
    await page.locator(".outcome").getByText("the pick is the same").waitFor();
    expect(await violations(page)).toEqual([]);
    await page.getByRole("button", { name: "YAML" }).click();
    await page.locator(".outcome").getByText("the pick is the same").waitFor();
    expect(await violations(page)).toEqual([]);
    await page
      .getByLabel("EndpointPickerConfig as YAML")
      .fill(CONFIG.replace("type: queue-scorer", "type: queue-scorr"));
    await page.getByRole("button", { name: "line 5, column 3" }).waitFor();
    expect(await violations(page)).toEqual([]);
    await page.emulateMedia({ colorScheme: "dark" });
    expect(await violations(page, ["color-contrast"])).toEqual([]);
    // On a phone, neither of the two is wider than the screen.
    await page.setViewportSize({ width: 360, height: 780 });
    for (const editor of ["YAML", "weights and parameters"]) {
      await page.getByRole("button", { name: editor }).click();
      await poll(
        `the width of ${editor}`,
        async () => (await page.evaluate("document.documentElement.scrollWidth")) === 360,
      );
    }
    await page.close();
  });

  it("marks a request that was refused, and says why", async () => {
    expect((await send("too-choosy", { prefer: "if-available" })).status).toBeLessThan(600);
    const answer = await ask(`${gateway.url}/v1/chat/completions`, {
      headers: { ...JSON_HEADERS, "x-request-id": "never-cached", prefer: "if-available" },
      body: chat("never seen before"),
    });
    expect(answer.status).toBe(412);
    const page = await open("#/decisions?reason=refused");
    const row = page.getByRole("group", { name: "Decisions" }).locator("tbody tr", { hasText: "never-cached" });
    await row.waitFor();
    expect(await row.locator(".badge.bad").textContent()).toBe("refused 412");
    await row.getByRole("link", { name: "never-cached" }).click();
    await page.getByText("The client received 412: ").waitFor();
    expect(await page.locator("table.candidates").count()).toBe(0);
    await page.close();
  });

  it("shows queues, limits and the configuration in force", async () => {
    await send("limited");
    const page = await open("#/queues");
    await page.getByText("Counted by this gateway alone.").waitFor();
    await page.getByText("Flow control is off").waitFor();
    // The rows are for the counters in use, and those drain.
    await page.getByRole("group", { name: "Limits" }).locator("tbody tr").first().waitFor();
    await page.getByRole("link", { name: "Configuration" }).click();
    const main = page.locator(".main");
    await main.getByRole("heading", { name: "Profile default" }).waitFor();
    expect(await main.textContent()).toContain("label-selector-filter");
    expect(await page.getByRole("region", { name: "Settings" }).last().textContent()).toContain("config-file");
    await page.screenshot({ path: join(SCREENSHOTS, "configuration.png"), fullPage: true });
    await page.close();
  });

  it("explains the same request to curl, by its x-request-id", async () => {
    const { text } = await ask(`${gateway.adminUrl}/debug/decisions/seen-on-the-page`);
    const explained = JSON.parse(text);
    expect(explained.sentence).toContain("seen-on-the-page");
    const missing = await ask(`${gateway.adminUrl}/debug/decisions/never-sent`);
    expect(missing.status).toBe(404);
    expect(missing.text).toContain("no decision never-sent");
  });
});
