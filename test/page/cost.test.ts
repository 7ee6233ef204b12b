import type { Browser, CDPSession, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startChromium } from "../support/chromium.ts";
import { FakeFeed, type FakeFeedOptions } from "../support/feed/fake-feed.ts";
import { poll } from "../support/poll.ts";
import { fixedLimit } from "../support/slowness.ts";

/**
 * Times are those that the page's main thread has the processor, in steps of a fixed piece of work that the same page does: the
 * speed of the machine, and what else runs on it, make no difference. An idle core of 2020 takes 45 ms for the work (slowness.ts).
 */
const WORK_MS = 45;
const WORK = `(() => {
  let x = 1;
  for (let i = 0; i < 20_000_000; i++) x = (Math.imul(x, 1_664_525) + 1_013_904_223) ^ (i >>> 3);
  return x;
})()`;
const WORKS = 5;

/** What the page may take, in milliseconds of an idle core of 2020: until its first view stands, and in one piece after that. */
const FIRST_VIEW_MS = 500;
const LONGEST_TASK_MS = 50;
/** Frames of a measurement, and the redraws that must fall into it: one second of traffic at least. */
const FRAMES = 120;
const REDRAWS = 4;
/** What the first view needs besides the icon: the document, its script and style, the stream, the figures, the parts of the view. */
const MOST_REQUESTS = 6;
const MOST_ELEMENTS = 1500;

interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  /** Microseconds of the processor; of complete events. */
  readonly tdur?: number;
  readonly args?: { readonly name?: string };
}

/** Counts frames and the changes of the page meanwhile. */
const WATCH = `(async () => {
  let [redraws, frames] = [0, 0];
  const seen = new MutationObserver(() => redraws++);
  seen.observe(document.querySelector(".main"), { childList: true, subtree: true, characterData: true, attributes: true });
  await new Promise((resolve) => {
    const frame = () => (++frames >= ${FRAMES} && redraws >= ${REDRAWS} ? resolve() : requestAnimationFrame(frame));
    requestAnimationFrame(frame);
  });
  seen.disconnect();
  return redraws;
})()`;

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

  async function open(
    view: string,
    options: FakeFeedOptions = {},
  ): Promise<{ page: Page; cpu: () => Promise<number> }> {
    const feed = new FakeFeed(options);
    feeds.push(feed);
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    pages.push(page);
    page.setDefaultTimeout(fixedLimit(20_000));
    const session: CDPSession = await page.context().newCDPSession(page);
    await session.send("Performance.enable", { timeDomain: "threadTicks" });
    /** Milliseconds that the main thread of the present document had the processor. */
    const cpu = async (): Promise<number> => {
      const { metrics } = await session.send("Performance.getMetrics");
      return metrics.find(({ name }) => name === "TaskDuration")!.value * 1000;
    };
    await page.goto(`${await feed.listen()}/#/${view}`);
    await page.locator(".connection.live").waitFor();
    return { page, cpu };
  }

  /** Milliseconds of this machine in one millisecond of an idle core of 2020. */
  async function factorOf(page: Page, cpu: () => Promise<number>): Promise<number> {
    const taken: number[] = [];
    for (let i = 0; i < WORKS; i++) {
      const before = await cpu();
      await page.evaluate(WORK);
      taken.push((await cpu()) - before);
    }
    return taken.sort((a, b) => a - b)[WORKS >> 1]! / WORK_MS;
  }

  /** The longest tasks of the main thread while a function runs, in milliseconds of the processor. */
  async function tasksDuring(page: Page, run: () => Promise<unknown>): Promise<readonly number[]> {
    await browser.startTracing(page, { categories: ["toplevel", "disabled-by-default-devtools.timeline"] });
    await run();
    const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: TraceEvent[] };
    const threads = new Map<string, string | undefined>();
    for (const { name, pid, tid, args } of traceEvents)
      if (name === "thread_name") threads.set(`${pid} ${tid}`, args?.name);
    return traceEvents
      .filter(({ name, pid, tid }) => name === "RunTask" && threads.get(`${pid} ${tid}`) === "CrRendererMain")
      .map(({ tdur = Number.NaN }) => tdur / 1000)
      .sort((a, b) => b - a);
  }

  it("shows its first view from few requests, of few elements, in little time", async () => {
    const { page, cpu } = await open("overview", { endpoints: 100 });
    await page.locator('[data-total="answered"]').waitFor();
    const plots = await page.locator(".plot").count();
    expect(plots).toBeGreaterThan(6);
    await poll("all plots", async () => (await page.locator(".plot canvas").count()) === plots);
    const spent = await cpu();
    const factor = await factorOf(page, cpu);
    const asked = await page.evaluate<string[]>(
      `[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].map(({ name }) => name)`,
    );
    expect(asked.filter((name) => !name.endsWith("/icon.svg")).length).toBeLessThanOrEqual(MOST_REQUESTS);
    // The script for what if is not among them: it is larger than the rest.
    expect(asked.filter((name) => name.includes("what-if"))).toEqual([]);
    expect(await page.evaluate("document.querySelectorAll('*').length")).toBeLessThan(MOST_ELEMENTS);
    process.stdout.write(`first view: ${(spent / factor).toFixed()} ms, the machine's factor ${factor.toFixed(2)}\n`);
    expect(spent / factor).toBeLessThan(FIRST_VIEW_MS);
  });

  it.each([
    ["overview", 500],
    ["decisions", 500],
    ["decisions", 2000],
    ["endpoints", 500],
  ])("%s at %i requests/s: no long task", async (view, rate) => {
    const { page, cpu } = await open(view, { batch: rate / 4, endpoints: 1000 });
    await page.locator(".live-data").first().waitFor();
    // The first seconds compile what runs later.
    await page.evaluate(WATCH);
    const tasks = await tasksDuring(page, () => page.evaluate(WATCH));
    const factor = await factorOf(page, cpu);
    expect(tasks.length).toBeGreaterThan(FRAMES / 2);
    const longest = tasks.slice(0, 3).map((ms) => ms / factor);
    process.stdout.write(
      `${view} at ${rate} requests/s: the longest of ${tasks.length} tasks took ${longest.map((ms) => ms.toFixed(1)).join(", ")} ms, the machine's factor ${factor.toFixed(2)}\n`,
    );
    // Once or twice a collection of garbage may fall into a task.
    expect(longest[2]).toBeLessThan(LONGEST_TASK_MS);
    expect(longest[0]).toBeLessThan(2 * LONGEST_TASK_MS);
  });
});
