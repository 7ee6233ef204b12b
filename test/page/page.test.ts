import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { realClock } from "../../src/base/clock/real.ts";
import { startAdmin } from "../../src/wires/admin/server.ts";
import type { BacklogPicture } from "../../src/wires/admin/views.ts";
import { EMPTY_VIEWS } from "../support/admin-port.ts";
import { startChromium } from "../support/chromium.ts";
import { ask, chat, JSON_HEADERS } from "../support/client.ts";
import { freePort } from "../support/free-port.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
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
const SCREENSHOTS = process.env["SLUICE_SCREENSHOTS"] ?? FOLDER;
const file = (name: string, text: string): string => {
  writeFileSync(join(FOLDER, name), text);
  return join(FOLDER, name);
};

describe("the page, in Chromium", () => {
  let sims: Sim[];
  let gateway: TestGateway;
  let browser: Browser;

  beforeAll(async () => {
    sims = await startSims(3);
    const entries = [...sims.map((sim) => sim.port), await freePort()].map(
      (port, i) =>
        `- { name: server-${i + 1}, address: 127.0.0.1, port: ${port}, labels: { tier: ${i === 2 ? "silver" : "gold"} } }`,
    );
    gateway = await startGateway(file("endpoints.yaml", `endpoints:\n${entries.join("\n")}\n`), [
      ...["--config-file", file("config.yaml", CONFIG), "--limits", file("limits.yaml", LIMITS)],
    ]);
    browser = await startChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.process.stop();
    await Promise.all((sims ?? []).map((sim) => sim.process.stop()));
  });

  it("shows endpoints with their state and, live, why a request went where it went", async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    page.setDefaultTimeout(fixedLimit(30_000));
    const problems: string[] = [];
    page.on("pageerror", (error) => problems.push(String(error)));
    page.on("console", (message) => {
      if (message.type() === "error") problems.push(message.text());
    });
    await page.goto(`${gateway.adminUrl}/`);
    await page.locator("#status.live").waitFor();
    await page.locator("#endpoints tbody tr").nth(3).waitFor();
    await page.locator(".state.down").waitFor();
    expect(await page.locator("#endpoints tbody tr").count()).toBe(4);
    expect(await page.locator("tr", { has: page.locator(".state.down") }).textContent()).toContain("ECONNREFUSED");

    const answer = await ask(`${gateway.url}/v1/chat/completions`, {
      headers: { ...JSON_HEADERS, "x-request-id": "seen-on-the-page" },
      body: chat("show me"),
    });
    expect(answer.status).toBe(200);
    const line = page.locator("#decisions button", { hasText: "seen-on-the-page" });
    await line.waitFor();
    await line.click();
    const table = page.locator(".detail table");
    await table.waitFor();
    // The reason is the end of the line: opened it may not be cut off, however narrow the window.
    await page.setViewportSize({ width: 480, height: 800 });
    expect(await line.locator(".why").evaluate((text) => text.scrollWidth <= text.clientWidth)).toBe(true);
    expect(await line.textContent()).toContain("seen-on-the-page: ");
    await page.setViewportSize({ width: 1280, height: 800 });
    expect(await table.locator("thead").textContent()).toContain("prefix-cache-scorer x 3");
    expect(await table.locator("tbody tr").count()).toBe(2);
    const facts = await page.locator(".detail .facts").textContent();
    expect(facts).toContain("Filtered out: label-selector-filter dropped 1 candidate: default/server-3");
    expect(facts).toContain("Before the filters, Sluice left out 1 more endpoint that is down.");
    expect(facts).toMatch(/profile default, configuration [0-9a-f]{12}/);
    await page.screenshot({ path: join(SCREENSHOTS, "page.png") });
    expect(problems).toEqual([]);
  });

  it("marks a request that was refused, and says why", async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    page.setDefaultTimeout(fixedLimit(30_000));
    await page.goto(`${gateway.adminUrl}/`);
    const headers = { ...JSON_HEADERS, "x-request-id": "too-choosy", prefer: "if-available" };
    const answer = await ask(`${gateway.url}/v1/chat/completions`, { headers, body: chat("never seen before") });
    expect(answer.status).toBe(412);
    const line = page.locator("#decisions button", { hasText: "too-choosy" });
    await line.waitFor();
    expect(await line.locator(".where.refused").textContent()).toBe("refused 412");
    await line.click();
    const detail = page.locator(".detail");
    expect(await detail.locator(".facts").textContent()).toContain("The client received 412: ");
    expect(await detail.locator("table").count()).toBe(0);
    await page.screenshot({ path: join(SCREENSHOTS, "refused.png") });
  });

  it("shows the limits of the gateway", async () => {
    const page = await browser.newPage();
    page.setDefaultTimeout(fixedLimit(30_000));
    await page.goto(`${gateway.adminUrl}/`);
    // The rows are for the counters in use, and those drain.
    await page.locator("#limits caption", { hasText: "Counted by this gateway alone." }).waitFor();
    await page.locator("#limits tbody tr").first().waitFor();
  });

  it("shows the fullest limits as a table with a caption, for eyes and for screen readers", async () => {
    const counter = { requests: undefined, tokens: undefined, inFlight: { used: 0 }, share: 0, gateways: 2 };
    const used = (amount: number, limit: number) => ({ used: amount, limit });
    const limits = {
      shared: "shared",
      inUse: 5,
      counters: [
        { ...counter, counter: "key=batch model=llama-8b", requests: used(31, 30), share: 31 / 30 },
        { ...counter, counter: "key=team-a", tokens: used(123_456, 200_000), inFlight: used(7, 50), share: 0.62 },
        { ...counter, counter: `key=<b>${"x".repeat(300)}</b>`, requests: used(1, 600), share: 1 / 600 },
      ],
    };
    const admin = await startAdmin({
      ...{ host: "127.0.0.1", port: 0, clock: realClock, authorize: () => undefined },
      views: {
        ...EMPTY_VIEWS,
        picture: () => ({ data: JSON.stringify({ name: "p", endpoints: [], decisions: [], limits }), mark: 0 }),
      },
    });
    try {
      const page = await browser.newPage({ viewport: { width: 1280, height: 700 } });
      page.setDefaultTimeout(fixedLimit(30_000));
      await page.goto(`http://127.0.0.1:${admin.port}/`);
      const table = page.getByRole("region", { name: "Limits" }).getByRole("table");
      await table.waitFor();
      expect(await table.locator("caption").textContent()).toBe(
        "Counted together with the other gateways, in Redis. The fullest come first; 2 more are in use.",
      );
      expect(await table.getByRole("columnheader").allTextContents()).toEqual([
        ...["key or model", "requests per minute", "tokens per minute", "in flight", "used", "gateways"],
      ]);
      const cells = (n: number) => table.locator("tbody tr").nth(n).locator("td").allTextContents();
      expect(await cells(0)).toEqual(["key=batch model=llama-8b", "31 of 30", "-", "0", "103 %", "2"]);
      expect(await cells(1)).toEqual(["key=team-a", "-", "123,456 of 200,000", "7 of 50", "62 %", "2"]);
      expect((await cells(2))[0]).toMatch(/^key=<b>x{52}…$/);
      expect(await table.locator(".bar.full").count()).toBe(1);
      await page.screenshot({ path: join(SCREENSHOTS, "limits.png") });
    } finally {
      await admin.close();
    }
  });

  it("shows a backlog as soon as there is one, and nothing of it without", async () => {
    const backlog: BacklogPicture = {
      ...{ waiting: 118, inFlight: 24, done: 18, etaSeconds: 25, gate: "closed" },
      because: "D 0.292 is not above B 0.35; 17 of the running requests are from this dispatcher",
    };
    let shown: BacklogPicture | undefined;
    const admin = await startAdmin({
      ...{ host: "127.0.0.1", port: 0, clock: realClock, authorize: () => undefined },
      views: {
        ...EMPTY_VIEWS,
        picture: () => ({
          data: JSON.stringify({ name: "p", endpoints: [], decisions: [], backlog: shown }),
          mark: 0,
        }),
      },
    });
    try {
      const page = await browser.newPage();
      page.setDefaultTimeout(fixedLimit(30_000));
      await page.goto(`http://127.0.0.1:${admin.port}/`);
      await page.locator("#status.live").waitFor();
      const row = page.locator("#backlog tbody tr");
      await page.getByText("no endpoints yet").waitFor();
      expect(await page.locator("#backlog").isVisible()).toBe(false);
      expect(await page.locator("#limits").isVisible()).toBe(false);
      shown = backlog;
      await row.waitFor();
      expect(await row.locator("td").allTextContents()).toEqual([
        ...["118", "24", "18", "25.0 s", "closed"],
        "D 0.292 is not above B 0.35; 17 of the running requests are from this dispatcher",
      ]);
    } finally {
      await admin.close();
    }
  });

  it("explains the same request to curl, by its x-request-id", async () => {
    const { text } = await ask(`${gateway.adminUrl}/debug/decisions/seen-on-the-page`);
    const explained = JSON.parse(text);
    expect(explained.sentence).toContain("seen-on-the-page");
    expect(explained.candidates[0].scores.map((score: { scorer: string }) => score.scorer)).toEqual([
      "queue-scorer",
      "kv-cache-utilization-scorer",
      "prefix-cache-scorer",
      "active-request-scorer",
    ]);
    const missing = await ask(`${gateway.adminUrl}/debug/decisions/never-sent`);
    expect(missing.status).toBe(404);
    expect(missing.text).toContain("no decision never-sent");
  });
});
