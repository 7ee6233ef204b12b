import { gzipSync } from "node:zlib";
import axe from "axe-core";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startChromium } from "../support/chromium.ts";
import { FakeFeed, type FakeFeedOptions } from "../support/feed/fake-feed.ts";
import { poll } from "../support/poll.ts";
import { fixedLimit } from "../support/slowness.ts";

/** Bytes of all files of the page, gzipped. */
const BUDGET = 120 * 1024;
const ROUTING_VIEWS = [
  ...["demo", "overview", "endpoints", "endpoints/default%2Fserver-1", "decisions", "decisions/42", "decisions/34"],
  ...["queues", "replicas", "configuration"],
];

/** A process that has something for each view. */
const ALL = { demo: true, replicas: true, batches: true };

/** What happened within 120 frames. */
interface Counted {
  /** Redraws, and those that came second in one frame. */
  readonly changes: number;
  readonly twice: number;
  readonly rows: number;
}

/** Runs in the browser, whose names the compiler of the tests does not know. */
const COUNT_REDRAWS = `(async () => {
  let [changes, twice, frames, inFrame] = [0, 0, 0, false];
  const seen = new MutationObserver(() => {
    changes++;
    if (inFrame) twice++;
    inFrame = true;
  });
  seen.observe(document.querySelector(".main"), { childList: true, subtree: true, characterData: true });
  await new Promise((resolve) => {
    const frame = () => {
      inFrame = false;
      if (++frames < 120) requestAnimationFrame(frame);
      else resolve();
    };
    requestAnimationFrame(frame);
  });
  seen.disconnect();
  return { changes, twice, rows: document.querySelectorAll("tbody tr:not(.spacer)").length };
})()`;

describe("the page, with figures that are made up", () => {
  let browser: Browser;
  const feeds: FakeFeed[] = [];
  const pages: Page[] = [];

  const feedOf = async (options: FakeFeedOptions = {}): Promise<[FakeFeed, string]> => {
    const feed = new FakeFeed(options);
    feeds.push(feed);
    return [feed, await feed.listen()];
  };
  async function open(url: string, options: BrowserContextOptions = {}): Promise<Page> {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, ...options });
    pages.push(page);
    page.setDefaultTimeout(fixedLimit(20_000));
    await page.goto(url);
    await page.locator(".connection.live").waitFor();
    return page;
  }
  /** Asked without code in the page, which its policy refuses. */
  const loaded = (page: Page): Promise<boolean> =>
    poll("the figures", async () => !(await page.locator(".main").textContent())!.includes("Loading"));
  /** @param rules all rules when undefined */
  const violations = (page: Page, rules?: readonly string[]): Promise<string[]> =>
    page.evaluate(`(async () => {
      const runOnly = ${JSON.stringify(rules) ?? "undefined"};
      const { violations } = await axe.run(document, { resultTypes: ["violations"], runOnly });
      return violations.map(({ id, nodes }) => id + ": " + nodes.map(({ html }) => html.slice(0, 160)).join(" | "));
    })()`);

  beforeAll(async () => {
    browser = await startChromium();
  });
  afterEach(async () => {
    await Promise.all(pages.splice(0).map((page) => page.close()));
    await Promise.all(feeds.splice(0).map((feed) => feed.close()));
  });
  afterAll(async () => browser?.close());

  it("greys and says since when the process is away, and comes back by itself, also as another instance", async () => {
    const [feed, url] = await feedOf();
    const page = await open(`${url}/#/overview`);
    await page.locator('[data-total="answered"]').waitFor();
    await feed.close();
    await page.locator(".shell.stale").waitFor();
    expect(await page.getByRole("alert").textContent()).toMatch(/Connection lost\..*state of \d\d:\d\d:\d\d/);
    expect(await page.locator(".connection").textContent()).toMatch(/^lost since \d\d:\d\d:\d\d$/);
    // The figures stay readable.
    expect(await page.locator('[data-total="answered"]').textContent()).toBe("148,221");
    expect(await page.evaluate("getComputedStyle(document.querySelector('.live-data')).filter")).toBe("grayscale(1)");
    const [again] = await feedOf({ port: Number(new URL(url).port) });
    await page.locator(".connection.live").waitFor();
    expect(await page.locator(".shell.stale").count()).toBe(0);
    expect(again.streams[0]!.get("topics")).toBe("overview,events");
  });

  it("notices a stream that is open and silent", async () => {
    const [feed, url] = await feedOf();
    const page = await open(url);
    feed.isSilent = true;
    await page.locator(".connection.lost").waitFor();
    expect(await page.getByRole("alert").textContent()).toContain("no event came for");
    feed.isSilent = false;
    await page.locator(".connection.live").waitFor();
  });

  it("has no violation of axe in any view, in light and dark, while live and while lost", async () => {
    for (const colorScheme of ["light", "dark"] as const) {
      const [feed, url] = await feedOf({ ...ALL, endpoints: 6 });
      const page = await open(url, { colorScheme, bypassCSP: true });
      await page.evaluate(axe.source);
      for (const view of ROUTING_VIEWS) {
        await page.evaluate(`location.hash = "#/${view}"`);
        await page.locator("h1").waitFor();
        await loaded(page);
        // The dark page has other colours, and nothing else.
        const found = await violations(page, colorScheme === "dark" ? ["color-contrast"] : undefined);
        expect([colorScheme, view, found]).toEqual([colorScheme, view, []]);
      }
      await feed.close();
      await page.locator(".shell.stale").waitFor();
      expect([colorScheme, "lost", await violations(page)]).toEqual([colorScheme, "lost", []]);
    }
    const [, url] = await feedOf({ kind: "dispatch" });
    const page = await open(`${url}/#/queues`, { bypassCSP: true });
    await page.evaluate(axe.source);
    await page.getByRole("heading", { name: "Worker pools" }).waitFor();
    expect(await violations(page)).toEqual([]);
  });

  it("fits a phone and a screen of 4K: nothing but tables and plots scrolls sideways", async () => {
    const [, url] = await feedOf(ALL);
    for (const viewport of [
      { width: 360, height: 780 },
      { width: 3840, height: 2160 },
    ]) {
      const page = await open(url, { viewport });
      for (const view of ROUTING_VIEWS) {
        await page.evaluate(`location.hash = "#/${view}"`);
        await page.locator("h1").waitFor();
        await loaded(page);
        const over = await page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
        expect([viewport.width, view, Math.max(0, over)]).toEqual([viewport.width, view, 0]);
      }
    }
  });

  it("shows a thousand endpoints with the rows in view alone, and finds one of them", async () => {
    const [, url] = await feedOf({ endpoints: 1000 });
    const page = await open(`${url}/#/endpoints`);
    const table = page.getByRole("group", { name: "Endpoints" });
    await page.getByText("1,000 endpoints").waitFor();
    const rows = table.locator("tbody tr:not(.spacer)");
    await rows.nth(20).waitFor();
    expect(await rows.count()).toBeLessThan(100);
    expect(await table.locator("table").getAttribute("aria-rowcount")).toBe("1001");
    await table.evaluate((box) => box.scrollTo(0, box.scrollHeight));
    await table.getByRole("link", { name: "default/server-1000", exact: true }).waitFor();
    await page.getByLabel("Name, address or model").fill("server-777");
    await poll("one row", async () => (await rows.count()) === 1);
    expect(await rows.textContent()).toContain("default/server-777");
  });

  it("redraws at most once a frame at 2,000 requests a second, and says that the list is a sample", async () => {
    const [, url] = await feedOf({ batch: 500 });
    const page = await open(`${url}/#/decisions`);
    await page.getByText(/A sample: [\d,]+ decisions of [\d,]+ since/).waitFor();
    const counted = await page.evaluate<Counted>(COUNT_REDRAWS);
    expect(counted.changes).toBeGreaterThan(0);
    expect(counted.twice).toBe(0);
    expect(counted.rows).toBeLessThan(100);
  });

  it("is within its budget, runs no inline code and asks no other server", async () => {
    const [, url] = await feedOf({ demo: true });
    const page = await browser.newPage();
    pages.push(page);
    const asked = new Set<string>();
    page.on("request", (request) => asked.add(request.url()));
    const answer = await page.goto(`${url}/#/decisions/42`);
    await page.locator("table.candidates").waitFor();
    const policy = answer!.headers()["content-security-policy"] ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toContain("unsafe");
    expect([...asked].filter((other) => !other.startsWith(url))).toEqual([]);

    const html = await (await fetch(url)).text();
    expect(html).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=/);
    const names = new Set(html.match(/assets\/[\w.-]+/g));
    const sizes = new Map<string, number>([["index.html", gzipSync(html).length]]);
    // The scripts name those that they load later.
    for (const name of names) {
      const text = await (await fetch(`${url}/${name}`)).text();
      sizes.set(name, gzipSync(text, { level: 9 }).length);
      for (const [, other] of text.matchAll(/["'`]\.?\/?(?:assets\/)?([\w-]+\.(?:js|css))["'`]/g))
        names.add(`assets/${other}`);
    }
    expect([...sizes.keys()].filter((name) => name.includes("what-if"))).toHaveLength(1);
    expect([...sizes.values()].reduce((sum, size) => sum + size, 0)).toBeLessThan(BUDGET);
    const zipped = await fetch(`${url}/${[...names][0]}`, { headers: { "accept-encoding": "gzip" } });
    expect(zipped.headers.get("content-encoding")).toBe("gzip");
    expect((await fetch(`${url}/assets/none.js`)).status).toBe(404);
  });

  it("is used by keyboard: it skips to the contents, walks the views and sorts a table", async () => {
    const [, url] = await feedOf();
    const page = await open(`${url}/#/endpoints`);
    await page.getByRole("link", { name: "default/server-1", exact: true }).waitFor();
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Skip to the contents");
    await page.keyboard.press("Enter");
    expect(await page.evaluate("document.activeElement.id")).toBe("main");
    const head = page.getByRole("columnheader", { name: "in flight" });
    await head.getByRole("button").press("Enter");
    expect(await head.getAttribute("aria-sort")).toBe("descending");
    const flights = await page.locator("tbody tr td:nth-child(3)").allTextContents();
    expect(flights.map(Number)).toEqual(flights.map(Number).sort((a, b) => b - a));
    await page.getByRole("link", { name: "Queues" }).press("Enter");
    await page.getByRole("heading", { name: "Bands" }).waitFor();
    expect(await page.getByRole("link", { name: /^Queues/ }).getAttribute("aria-current")).toBe("page");
    expect(await page.locator(".main").textContent()).toContain("is not below its ceiling");
  });

  it("shows replicas and batches where the process has them, and no such view where it has none", async () => {
    const [, url] = await feedOf(ALL);
    const page = await open(`${url}/#/overview`);
    await page.getByRole("link", { name: "Replicas" }).click();
    const rows = page.getByRole("group", { name: "Replicas" }).locator("tbody tr");
    await rows.nth(2).waitFor();
    expect(await rows.nth(0).textContent()).toMatch(/^epp-0 this onelive.*/);
    expect(await rows.nth(1).textContent()).toMatch(/^epp-1 live.*120 ms ago30/);
    expect(await rows.nth(2).textContent()).toMatch(/^epp-2 gone.*ago.*–/);
    const main = page.locator(".main");
    expect(await main.textContent()).toContain("It knows what the others know.");
    // The own messages that the store hands back are no problem.
    expect(await main.textContent()).toMatch(/do not count0$/);
    await page.getByRole("link", { name: "Queues" }).click();
    const batches = page.getByRole("group", { name: "Batches" }).locator("tbody tr");
    await batches.nth(1).waitFor();
    expect(await batches.nth(0).textContent()).toMatch(
      /batch_7f4f8efe564237a1c4d40a559d072189–in progress450 of 1,000 \(50 failed\).*too late/,
    );
    expect(await batches.nth(1).textContent()).toContain("completed");
    expect(await batches.nth(2).textContent()).toContain("line 17: custom_id");
    const tooWide = `(() => { const group = document.querySelector('[aria-label="Batches"]'); return group.scrollWidth - group.clientWidth; })()`;
    expect(await page.evaluate(tooWide)).toBe(0);
    expect(await main.textContent()).toContain("1 open, 550 lines left, 12/s");

    const [, bare] = await feedOf();
    const without = await open(`${bare}/#/queues`);
    await without.getByRole("heading", { name: "Bands" }).waitFor();
    expect(await without.getByRole("link", { name: "Replicas" }).count()).toBe(0);
    expect(await without.getByRole("heading", { name: "Batches" }).count()).toBe(0);
    await without.goto(`${bare}/#/replicas`);
    await without.getByText("This process has no such view").waitFor();
  });

  it("gives the orders of the demo", async () => {
    const [feed, url] = await feedOf({ demo: true });
    const page = await open(url);
    await page.getByRole("heading", { name: "Round robin and Sluice, side by side" }).waitFor();
    expect(await page.locator("table.compare").textContent()).toContain("2.9× better");
    await page.getByRole("button", { name: "Kill server-1" }).click();
    await page.getByRole("button", { name: "Start server-3" }).click();
    await page.getByRole("button", { name: "Round robin" }).click();
    await page.getByLabel("Requests per second").fill("12");
    await poll("the orders", () => feed.posts.length === 4);
    expect(feed.posts).toEqual([
      { path: "/demo/server", body: { name: "server-1", order: "kill" } },
      { path: "/demo/server", body: { name: "server-3", order: "start" } },
      { path: "/demo/policy", body: { policy: "round-robin" } },
      { path: "/demo/traffic", body: { requestsPerSecond: 12 } },
    ]);
  });
});
