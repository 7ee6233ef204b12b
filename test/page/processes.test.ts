import { mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BatchCalls, chatLines } from "../batch-api/calls.ts";
import { Cleanup, Dispatching, inSeconds, ScriptedGateway } from "../dispatch/dispatching.ts";
import { startBatchServer } from "../support/batch-server.ts";
import { startChromium } from "../support/chromium.ts";
import { ask, chat, JSON_HEADERS } from "../support/client.ts";
import { openStore } from "../support/dispatch-store.ts";
import { startGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { startRedis } from "../support/redis.ts";
import { fixedLimit } from "../support/slowness.ts";
import { endpointsFile, type Stack, startSims, startStack } from "../support/stack.ts";

/** The pictures of a run are kept here. */
const SCREENSHOTS = process.env["SLUICE_SCREENSHOTS"] ?? mkdtempSync(join(tmpdir(), "sluice-processes-"));
mkdirSync(SCREENSHOTS, { recursive: true });

/** The sum over all series of a metric with `part` in the line. */
const metric = (text: string, name: string, part = ""): number =>
  text
    .split("\n")
    .filter((line) => (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && line.includes(part))
    .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);

const totalOf = async (page: Page, name: string): Promise<number> =>
  Number((await page.locator(`[data-total="${name}"]`).textContent())?.replace(/\D/g, ""));

describe("the page of the other processes, in Chromium", () => {
  let browser: Browser;
  const cleanup = new Cleanup();

  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await cleanup.run();
  });

  const open = async (url: string): Promise<Page> => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    page.setDefaultTimeout(fixedLimit(20_000));
    await page.goto(url);
    await page.locator(".connection.live").waitFor();
    return page;
  };

  it("follows the requests of a picker behind Envoy, with the figures of /metrics, through a kill", async () => {
    const stack: Stack = cleanup.add(await startStack("standalone"), (each) => each.stop());
    await poll("the first answer", async () => (await ask(`${stack.url}/v1/models`)).status === 200);
    const page = await open(`${stack.epp.adminUrl}/#/overview`);
    for (let i = 0; i < 5; i++) {
      const headers = JSON_HEADERS;
      expect((await ask(`${stack.url}/v1/chat/completions`, { headers, body: chat("hello") })).status).toBe(200);
    }
    expect(await page.locator(".who").textContent()).toContain("Endpoint Picker");
    await poll("the figures of /metrics", async () => {
      const { text } = await ask(`${stack.epp.adminUrl}/metrics`);
      const [routed, output] = [
        metric(text, "llm_d_epp_request_total"),
        metric(text, "llm_d_epp_request_output_tokens_sum"),
      ];
      return routed >= 5 && (await totalOf(page, "routed")) === routed && (await totalOf(page, "output")) === output;
    });
    await page.getByRole("link", { name: "Decisions", exact: true }).click();
    // Envoy gives each request an id of its own.
    await page.getByRole("group", { name: "Decisions" }).locator("tbody th a").first().click();
    await page.locator("table.candidates tbody tr").nth(2).waitFor();

    // A model server that dies turns bad, with its cause.
    await stack.sims[1]!.process.stop("SIGKILL");
    await page.getByRole("link", { name: /^Endpoints/ }).click();
    const down = page.getByRole("group", { name: "Endpoints" }).locator("tbody tr", { hasText: "down" });
    await down.waitFor();
    expect(await down.textContent()).toContain("ECONN");
    // Without the picker, the page greys and says so.
    await stack.epp.process.stop("SIGKILL");
    await page.locator(".shell.stale").waitFor();
    expect(await page.getByRole("alert").textContent()).toContain("Connection lost");
    await page.close();
  });

  it("shows the other replica while it lives, and that it has gone", async () => {
    const redis = cleanup.add(await startRedis(), (each) => each.stop());
    const [sim] = await startSims(1);
    cleanup.add(sim!.process, (each) => each.stop());
    const start = () => startGateway(endpointsFile([sim!.port]), ["--peers", redis.url, "--peers-name", "page"]);
    const [one, other] = await Promise.all([start(), start()]);
    for (const { process } of [one, other]) cleanup.add(process, (each) => each.stop());
    const page = await open(one.adminUrl);
    await page.getByRole("link", { name: "Replicas" }).click();
    const rows = page.getByRole("group", { name: "Replicas" }).locator("tbody tr");
    await rows.nth(1).getByText("live", { exact: true }).waitFor();
    expect(await rows.nth(0).textContent()).toContain("this one");
    await page.getByText("This replica knows what the others know.").waitFor();
    await other.process.stop("SIGKILL");
    await rows.nth(1).getByText("gone", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    const events = page.getByRole("list", { name: "Events, the newest first" });
    await events
      .getByText(/^replica \w+ joined$/)
      .first()
      .waitFor();
    await events
      .getByText(/^replica \w+ is silent/)
      .first()
      .waitFor();
    await page.close();
  });

  it("follows a batch of the Batch API to its end, and cancels one", async () => {
    const [sim] = await startSims(1);
    cleanup.add(sim!.process, (each) => each.stop());
    const folder = mkdtempSync(join(tmpdir(), "sluice-page-batches-"));
    const gateway = await startGateway(endpointsFile([sim!.port]), ["--batch", folder]);
    cleanup.add(gateway.process, (each) => each.stop());
    const page = await open(gateway.adminUrl);
    await page.getByRole("link", { name: "Queues" }).click();
    await page.getByText("No batch yet").waitFor();
    const calls = new BatchCalls(`${gateway.url}/v1`);
    const id = await calls.submit(chatLines("page-", 3));
    const row = page.getByRole("group", { name: "Batches" }).locator("tbody tr", { hasText: id });
    await row.getByText("completed").waitFor();
    expect(await row.textContent()).toContain("3 of 3");
    // Without its server, the next batch would wait until its deadline.
    await sim!.process.stop("SIGKILL");
    const waits = await calls.submit(chatLines("waits-", 3));
    await page.getByRole("button", { name: `Cancel ${waits}` }).click();
    await page
      .getByRole("dialog", { name: "Cancel this batch?" })
      .getByRole("button", { name: "Cancel the batch" })
      .click();
    await page
      .getByRole("group", { name: "Batches" })
      .locator("tbody tr", { hasText: waits })
      .getByText("cancelled")
      .waitFor();
    await page.screenshot({ path: join(SCREENSHOTS, "batches.png"), fullPage: true });
    expect(await calls.get(waits)).toMatchObject({ status: "cancelled", request_counts: { completed: 0 } });
    await page.close();
  });

  it("follows the lines of a batch server, with the figures of /metrics", async () => {
    const gateway = cleanup.add(await new ScriptedGateway().open(), (each) => each.close());
    const folder = mkdtempSync(join(tmpdir(), "sluice-page-batch-server-"));
    const server = await startBatchServer(folder, gateway.url, ["--batch-workers", "7"]);
    cleanup.add(server.process, (each) => each.stop());
    const page = await open(server.adminUrl);
    expect(await page.locator(".who").textContent()).toContain("Batch API");
    const id = await new BatchCalls(server.url).submit(chatLines("served-", 5));
    await page.getByRole("link", { name: "Batches" }).click();
    const row = page.getByRole("group", { name: "Batches" }).locator("tbody tr", { hasText: id });
    await row.getByText("completed").waitFor();
    expect(await row.textContent()).toContain("5 of 5");
    await page.getByRole("group", { name: "Worker pools" }).getByText("0 of 7").waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    await poll("the figures of /metrics", async () => {
      const { text } = await ask(`${server.adminUrl}/metrics`);
      const done = metric(text, "llm_d_async_async_successful_requests_total");
      return done === 5 && (await totalOf(page, "success")) === done;
    });
    await page.getByRole("link", { name: "Configuration" }).click();
    await page.getByRole("row", { name: /--batch-workers "7" flag/ }).waitFor();
    await page.close();
  });

  it("follows the backlog of the Async Processor until it is empty", async () => {
    const store = cleanup.add(await openStore("SQLite"), (each) => each.close());
    const gateway = cleanup.add(await new ScriptedGateway().open(), (each) => each.close());
    const held = Promise.withResolvers<void>();
    gateway.reply = () => ({ until: held.promise });
    const dispatching = cleanup.add(
      await Dispatching.start({ transport: store.transport, gateway: gateway.url, workers: 4 }),
      ({ process }) => process.stop(),
    );
    await dispatching.ready();
    const admin = `http://${await dispatching.process.listening("metrics")}`;
    const page = await open(`${admin}/#/queues`);
    expect(await page.locator(".who").textContent()).toContain("Async Processor");
    expect(await page.getByRole("link", { name: "Endpoints" }).count()).toBe(0);
    const messages = Array.from({ length: 12 }, (_, i) => ({
      id: `m${i}`,
      deadline: inSeconds(600),
      payload: { n: i },
    }));
    await store.submit(messages);
    await poll("four in flight", () => gateway.running === 4);
    const pool = page.getByRole("group", { name: "Worker pools" }).locator("tbody tr").first();
    await pool.getByText("4 of 4").waitFor();
    // The next one that waits is cancelled, and its owner gets that as the result.
    const next = page.getByRole("group", { name: "Next messages" }).locator("tbody tr").first();
    await page.getByRole("button", { name: "Read again" }).click();
    await next.getByText("m4", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Cancel m4" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel the message" }).click();
    await page.getByRole("status").getByText("m4").waitFor();
    await next.getByText("marked").waitFor();
    await page.getByLabel("Cancel another message, by its ID").fill("m0-never");
    await page.getByRole("button", { name: "Cancel it" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel the message" }).click();
    await page.getByRole("alert").getByText("cannot cancel a message with this ID").waitFor();
    await page.screenshot({ path: join(SCREENSHOTS, "dispatch-queues.png"), fullPage: true });
    held.resolve();
    await page.getByRole("link", { name: "Overview" }).click();
    await poll("the figures of /metrics", async () => {
      const { text } = await ask(`${admin}/metrics`);
      const done = metric(text, "llm_d_async_async_successful_requests_total");
      return done === 11 && (await totalOf(page, "success")) === done;
    });
    const results = (await store.results()).map((text) => JSON.parse(text) as { id: string; error_code?: string });
    expect(results.filter(({ error_code }) => error_code !== undefined)).toMatchObject([
      { id: "m4", error_code: "CANCELLED" },
    ]);
    await page.close();
  });
});
