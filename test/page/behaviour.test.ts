import { gzipSync } from "node:zlib";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { takeAxe, violations } from "../support/axe.ts";
import { ask } from "../support/client.ts";
import { FakePages, loaded } from "../support/feed/fake-pages.ts";
import { poll } from "../support/poll.ts";

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

/** The tables that are wider than their place. */
const WIDE_TABLES = `[...document.querySelectorAll(".scroll")]
  .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
  .map((box) => box.getAttribute("aria-label") + " " + box.scrollWidth + " of " + box.clientWidth)`;

/** The brightness of the darkest letter of an axis, 0 to 255: the letters are at the left edge of a plot. */
const DARKEST_AXIS = `(() => {
  const canvas = document.querySelector(".plot canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, 50, canvas.height);
  let least = 255;
  for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 200) least = Math.min(least, data[at]);
  return least;
})()`;

describe("the page, with figures that are made up", () => {
  const pages = new FakePages();

  beforeAll(() => pages.start());
  afterEach(() => pages.clear());
  afterAll(() => pages.stop());

  it("greys and says since when the process is away, and comes back by itself, also as another instance", async () => {
    const [feed, url] = await pages.feed();
    const page = await pages.open(`${url}/#/overview`);
    await page.locator('[data-total="answered"]').waitFor();
    await feed.close();
    await page.locator(".shell.stale").waitFor();
    expect(await page.getByRole("alert").textContent()).toMatch(/Connection lost\..*state of \d\d:\d\d:\d\d/);
    expect(await page.locator(".connection").textContent()).toMatch(/^lost since \d\d:\d\d:\d\d$/);
    // The figures stay readable.
    expect(await page.locator('[data-total="answered"]').textContent()).toBe("148,221");
    expect(await page.evaluate("getComputedStyle(document.querySelector('.live-data')).filter")).toBe("grayscale(1)");
    const [again] = await pages.feed({ port: Number(new URL(url).port) });
    await page.locator(".connection.live").waitFor();
    expect(await page.locator(".shell.stale").count()).toBe(0);
    expect(again.streams[0]!.get("topics")).toBe("overview,events");
  });

  it("notices a stream that is open and silent", async () => {
    const [feed, url] = await pages.feed();
    const page = await pages.open(url);
    feed.isSilent = true;
    await page.locator(".connection.lost").waitFor();
    expect(await page.getByRole("alert").textContent()).toContain("no event came for");
    feed.isSilent = false;
    await page.locator(".connection.live").waitFor();
  });

  it("has no violation of axe in any view, in light and dark, while live and while lost", async () => {
    for (const colorScheme of ["light", "dark"] as const) {
      const [feed, url] = await pages.feed({ ...ALL, endpoints: 6 });
      const page = await pages.open(url, { colorScheme, bypassCSP: true });
      await takeAxe(page);
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
    const [, url] = await pages.feed({ kind: "dispatch" });
    const page = await pages.open(`${url}/#/queues`, { bypassCSP: true });
    await takeAxe(page);
    await page.getByRole("heading", { name: "Worker pools" }).waitFor();
    expect(await violations(page)).toEqual([]);
  });

  it("fits a phone and a screen of 4K: nothing but tables and plots scrolls sideways", async () => {
    const [, url] = await pages.feed(ALL);
    for (const viewport of [
      { width: 360, height: 780 },
      { width: 3840, height: 2160 },
    ]) {
      const page = await pages.open(url, { viewport });
      for (const view of ROUTING_VIEWS) {
        await page.evaluate(`location.hash = "#/${view}"`);
        await page.locator("h1").waitFor();
        await loaded(page);
        const over = await page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
        expect([viewport.width, view, Math.max(0, over)]).toEqual([viewport.width, view, 0]);
      }
    }
  });

  it("fits a laptop: no table of a routing process scrolls sideways at 1,280 px", async () => {
    const [, url] = await pages.feed(ALL);
    const page = await pages.open(url);
    for (const view of ROUTING_VIEWS) {
      await page.evaluate(`location.hash = "#/${view}"`);
      await page.locator("h1").waitFor();
      await loaded(page);
      expect([view, await page.evaluate(WIDE_TABLES)]).toEqual([view, []]);
    }
  });

  it("opens the documentation that the process has", async () => {
    const [, url] = await pages.feed();
    const page = await pages.open(url);
    const [help] = await Promise.all([page.waitForEvent("popup"), page.getByRole("link", { name: "Help" }).click()]);
    await help.getByRole("heading", { name: "Which server is slow?" }).waitFor();
    await help.getByRole("link", { name: "Documentation" }).click();
    await help.getByRole("link", { name: "Flags" }).click();
    await help.getByText("--full-records-every", { exact: true }).first().waitFor();
    const outside = ["/docs/%2e%2e/index.html", "/docs/operate/none.html", "/docs/docs.txt"];
    const codes = await Promise.all(outside.map(async (path) => (await ask(`${url}${path}`)).status));
    expect(codes).toEqual([404, 404, 404]);
    await help.close();
  });

  it("is printed in dark ink on white paper, also where the screen is dark", async () => {
    const [, url] = await pages.feed();
    const page = await pages.open(`${url}/#/overview`, { colorScheme: "dark", bypassCSP: true });
    const ink = (): Promise<string> => page.evaluate("getComputedStyle(document.querySelector('h1')).color");
    await page.locator(".plot canvas").first().waitFor();
    const onScreen = await ink();
    await page.evaluate("dispatchEvent(new Event('beforeprint'))");
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    expect([onScreen, await ink()]).toEqual(["rgb(230, 233, 237)", "rgb(26, 31, 38)"]);
    expect(await page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe("rgb(255, 255, 255)");
    for (const screenOnly of [page.getByRole("navigation", { name: "Views" }), page.locator(".tools").first()])
      expect(await screenOnly.isVisible()).toBe(false);
    // The plots are drawn anew in the colours of paper, at once.
    expect(await page.evaluate(DARKEST_AXIS)).toBeLessThan(140);
    await page.emulateMedia({ media: "screen", colorScheme: "dark" });
    await page.evaluate("dispatchEvent(new Event('afterprint'))");
    expect(await ink()).toBe(onScreen);
  });

  it("shows a thousand endpoints with the rows in view alone, and finds one of them", async () => {
    const [, url] = await pages.feed({ endpoints: 1000 });
    const page = await pages.open(`${url}/#/endpoints`);
    const table = page.getByRole("group", { name: "Endpoints" });
    await page.getByText("1,000 endpoints").waitFor();
    const rows = table.locator("tbody tr:not(.spacer)");
    await rows.nth(12).waitFor();
    expect(await rows.count()).toBeLessThan(100);
    expect(await table.locator("table").getAttribute("aria-rowcount")).toBe("1001");
    await table.evaluate((box) => box.scrollTo(0, box.scrollHeight));
    await table.getByRole("link", { name: "default/server-1000", exact: true }).waitFor();
    await page.getByLabel("Name, address or model").fill("server-777");
    await poll("one row", async () => (await rows.count()) === 1);
    expect(await rows.textContent()).toContain("default/server-777");
  });

  it("redraws at most once a frame at 2,000 requests a second, and says that the list is a sample", async () => {
    const [, url] = await pages.feed({ batch: 500 });
    const page = await pages.open(`${url}/#/decisions`);
    await page.getByText(/A sample: [\d,]+ decisions of [\d,]+ since/).waitFor();
    const counted = await page.evaluate<Counted>(COUNT_REDRAWS);
    expect(counted.changes).toBeGreaterThan(0);
    expect(counted.twice).toBe(0);
    expect(counted.rows).toBeLessThan(100);
  });

  it("is within its budget, runs no inline code and asks no other server", async () => {
    const [, url] = await pages.feed({ demo: true });
    const page = await pages.page();
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
    const [, url] = await pages.feed();
    const page = await pages.open(`${url}/#/endpoints`);
    await page.getByRole("link", { name: "default/server-1", exact: true }).waitFor();
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Skip to the content");
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
});
