import type { Browser, CDPSession, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startChromium } from "../support/chromium.ts";
import { FakeFeed, type FakeFeedOptions } from "../support/feed/fake-feed.ts";
import { poll } from "../support/poll.ts";
import { fixedLimit } from "../support/slowness.ts";

/**
 * Time is that of the processor in the page's main thread, in steps of a fixed piece of work that the same browser does in the same
 * run: the machine's speed and what else it does make no difference. An idle core of 2020 takes 45 ms for the work (slowness.ts).
 */
const WORK_MS = 45;
const WORK = `(() => {
  let x = 1;
  for (let i = 0; i < 20_000_000; i++) x = (Math.imul(x, 1_664_525) + 1_013_904_223) ^ (i >>> 3);
  return x;
})()`;

/** The aims of the page, in milliseconds of an idle core of 2020. */
const FIRST_VIEW_MS = 500;
const LONG_TASK_MS = 50;

describe("what the page costs a browser", () => {
  let browser: Browser;
  const feeds: FakeFeed[] = [];
  const pages: Page[] = [];

  beforeAll(async () => {
    browser = await startChromium();
  });
  afterEach(async () => {
    await Promise.all(pages.splice(0).map((page) => page.close()));
    await Promise.all(feeds.splice(0).map((feed) => feed.close()));
  });
  afterAll(async () => browser?.close());

  const feedAt = async (options: FakeFeedOptions): Promise<string> => {
    const feed = new FakeFeed(options);
    feeds.push(feed);
    return feed.listen();
  };
  const newPage = async (): Promise<Page> => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    pages.push(page);
    page.setDefaultTimeout(fixedLimit(20_000));
    return page;
  };
  it("probe", async () => {
    const url = await feedAt({ endpoints: 100 });
    const page = await newPage();
    const cdp: CDPSession = await page.context().newCDPSession(page);
    await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
    const metrics = async () =>
      Object.fromEntries((await cdp.send("Performance.getMetrics")).metrics.map(({ name, value }) => [name, value]));
    for (let i = 0; i < 3; i++) {
      const before = await metrics();
      await page.evaluate(WORK);
      const after = await metrics();
      console.log(
        "work",
        (after["TaskDuration"]! - before["TaskDuration"]!) * 1000,
        (after["ScriptDuration"]! - before["ScriptDuration"]!) * 1000,
      );
    }
    await page.goto(`${url}/#/overview`);
    await page.locator(".connection.live").waitFor();
    await poll("plots", async () => (await page.locator("canvas").count()) >= 10);
    console.log(await metrics());
    for (let i = 0; i < 3; i++) {
      const before = await metrics();
      await page.evaluate(WORK);
      const after = await metrics();
      console.log(
        "work",
        (after["TaskDuration"]! - before["TaskDuration"]!) * 1000,
        (after["ScriptDuration"]! - before["ScriptDuration"]!) * 1000,
      );
    }
    await browser.startTracing(page, {
      categories: ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"],
    });
    await page.evaluate(WORK);
    await page.evaluate("new Promise((r) => setTimeout(r, 3000))");
    const trace = JSON.parse((await browser.stopTracing()).toString());
    const tasks = trace.traceEvents.filter(
      (e: any) => e.name === "RunTask" || e.name === "ThreadControllerImpl::RunTask",
    );
    tasks.sort((a: any, b: any) => b.dur - a.dur);
    console.log(tasks.slice(0, 6), trace.traceEvents.length);
  });
});
