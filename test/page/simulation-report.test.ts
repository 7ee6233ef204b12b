import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { renderReport } from "../../src/lab/study/report/report.ts";
import { startChromium } from "../support/chromium.ts";
import { fixedLimit } from "../support/slowness.ts";
import { fullStudy } from "../support/study/report/report.cases.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "sluice-report-"));
const SCREENSHOTS = process.env["SLUICE_SCREENSHOTS"] ?? FOLDER;
const FILE = join(FOLDER, "report.html");
const DESKTOP = { width: 1280, height: 800 };
/** Four plots of each workload; loads of four policies on the two ladders. */
const PLOTS = 3 * 4 + 2 * 4;

/** Colourful pixels of each plot, in the order of the page: axes and grids are grey, so these are lines, bands and bars. */
const inked = (page: Page): Promise<number[]> =>
  page.locator(".plot canvas").evaluateAll((canvases) =>
    canvases.map((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let seen = 0;
      for (let i = 0; i < data.length; i += 4) {
        const [red, green, blue, opaque] = data.slice(i, i + 4);
        if (opaque > 20 && Math.max(red, green, blue) - Math.min(red, green, blue) > 40) seen++;
      }
      return seen;
    }),
  );

/** Pixels of a plot that have about this colour, `#rrggbb`. */
const coloured = (page: Page, plot: number, colour: string): Promise<number> =>
  page
    .locator(".plot canvas")
    .nth(plot)
    .evaluate((canvas, hex) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const wanted = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
      let seen = 0;
      for (let i = 0; i < data.length; i += 4)
        if (data[i + 3] > 200 && wanted.every((value, k) => Math.abs(data[i + k] - value) < 12)) seen++;
      return seen;
    }, colour);

/** The legend of a plot: names and values of what is shown in it. */
const legend = (page: Page, plot: number): Promise<string[]> =>
  page
    .locator(".plot")
    .nth(plot)
    .locator(".u-series:not(.edge)")
    .evaluateAll((rows) => rows.map((row) => (row.textContent ?? "").trim()));

const style = (page: Page, selector: string, name: string): Promise<string> =>
  page
    .locator(selector)
    .first()
    .evaluate((element, name) => element.ownerDocument.defaultView.getComputedStyle(element)[name], name);
const background = (page: Page): Promise<string> => style(page, "body", "backgroundColor");
/** Pixels that a thing's content is wide. */
const width = (page: Page, selector: string): Promise<number> =>
  page
    .locator(selector)
    .first()
    .evaluate((element) => element.scrollWidth);
const announce = (page: Page, event: string): Promise<void> =>
  page.locator("html").evaluate((html, name) => {
    html.ownerDocument.defaultView.dispatchEvent(new Event(name));
  }, event);

describe("the report of a simulation, in Chromium", () => {
  let browser: Browser;
  let problems: string[];

  /** The report in a window of its own; what goes wrong in it or is requested by it is a problem. */
  async function open(options: BrowserContextOptions): Promise<Page> {
    const page = await browser.newPage(options);
    page.setDefaultTimeout(fixedLimit(30_000));
    problems = [];
    page.on("pageerror", (error) => problems.push(String(error)));
    page.on("console", (message) => {
      // That these tests read pixels is told, too.
      if (!message.text().includes("willReadFrequently")) problems.push(`${message.type()}: ${message.text()}`);
    });
    page.on("request", (request) => {
      if (request.url() !== pathToFileURL(FILE).href) problems.push(`request: ${request.url()}`);
    });
    await page.goto(pathToFileURL(FILE).href);
    return page;
  }

  beforeAll(async () => {
    writeFileSync(FILE, renderReport(fullStudy(), { command: "sluice simulate all --seeds 3 --html report.html" }));
    browser = await startChromium();
  });
  afterAll(async () => {
    await browser?.close();
  });

  it("draws every plot, with nothing but the file", async () => {
    const page = await open({ viewport: DESKTOP });
    await page
      .locator(".plot canvas")
      .nth(PLOTS - 1)
      .waitFor({ state: "attached" });
    const pixels = await inked(page);
    expect(pixels.length).toBe(PLOTS);
    for (const seen of pixels) expect(seen).toBeGreaterThan(100);
    for (const colour of ["#0072b2", "#d55e00", "#009e73", "#cc79a7"])
      expect(await coloured(page, 0, colour)).toBeGreaterThan(100);
    await page.screenshot({ path: join(SCREENSHOTS, "report.png"), fullPage: true });
    expect(problems).toEqual([]);
    await page.close();
  });

  it("tells values under the cursor, in all plots of a workload", async () => {
    const page = await open({ viewport: DESKTOP });
    const over = page.locator(".plot").first().locator(".u-over");
    await over.scrollIntoViewIfNeeded();
    const before = await legend(page, 0);
    expect(before[0]).toBe("requests/s60");
    const box = (await over.boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.28, box.y + box.height / 2);
    await expect.poll(() => legend(page, 0)).not.toEqual(before);
    const [rate, ...policies] = await legend(page, 0);
    expect(rate).toBe("requests/s18");
    expect(policies.map((text) => /^[a-z-]+/.exec(text)![0])).toEqual(fullStudy().policies.map(({ name }) => name));
    const ours = fullStudy()
      .runs.filter((run) => run.workload === "b2b-saas" && run.rate === 18 && run.policy === "default")
      .map((run) => run.ttft.p90 / 1000)
      .sort((a, b) => a - b)
      .map((value) => value.toPrecision(3).replace(/0+$/, ""));
    expect(policies[3]).toBe(`default${ours[1]} s (${ours[0]} to ${ours[2]})`);
    expect((await legend(page, 1))[0]).toBe("requests/s18");
    expect(problems).toEqual([]);
    await page.close();
  });

  it("takes a line away with its band when its name is clicked", async () => {
    const page = await open({ viewport: DESKTOP });
    const plot = page.locator(".plot").first();
    await plot.locator("canvas").waitFor();
    const colour = "#009e73";
    expect(await coloured(page, 0, colour)).toBeGreaterThan(100);
    const before = (await inked(page))[0]!;
    await plot.locator(".u-series", { hasText: "classic-blend" }).locator("th").click();
    await expect.poll(() => coloured(page, 0, colour)).toBe(0);
    expect((await inked(page))[0]).toBeLessThan(before);
    expect(problems).toEqual([]);
    await page.close();
  });

  it("is dark where dark is preferred, and follows when that changes", async () => {
    const page = await open({ viewport: DESKTOP, colorScheme: "dark" });
    await page.locator(".plot canvas").first().waitFor();
    expect(await background(page)).toBe("rgb(20, 23, 26)");
    expect(await coloured(page, 0, "#56b4e9")).toBeGreaterThan(100);
    expect(await coloured(page, 0, "#0072b2")).toBe(0);
    await page.screenshot({ path: join(SCREENSHOTS, "report-dark.png"), fullPage: true });
    await page.emulateMedia({ colorScheme: "light" });
    await expect.poll(() => coloured(page, 0, "#0072b2")).toBeGreaterThan(100);
    expect(await background(page)).toBe("rgb(255, 255, 255)");
    expect(problems).toEqual([]);
    await page.close();
  });

  it("fits a phone: only the tables scroll sideways, and plots are as wide as the page", async () => {
    const page = await open({ viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true });
    await page
      .locator(".plot canvas")
      .nth(PLOTS - 1)
      .waitFor({ state: "attached" });
    for (const summary of await page.locator("summary").all()) await summary.click();
    expect(await width(page, "html")).toBe(360);
    for (const plot of await page.locator(".plot canvas").all()) {
      const { x, width } = (await plot.boundingBox())!;
      expect(x + width).toBeLessThanOrEqual(360);
      expect(width).toBeGreaterThan(300);
    }
    expect(await width(page, ".scroll table")).toBeGreaterThan(360);
    expect(await style(page, ".scroll tbody th", "position")).toBe("sticky");
    await page.screenshot({ path: join(SCREENSHOTS, "report-phone.png") });
    expect(problems).toEqual([]);
    await page.close();
  });

  it("goes on paper in light colours with every table open, and comes back", async () => {
    const page = await open({ viewport: { width: 718, height: 1000 }, colorScheme: "dark" });
    await page.locator(".plot canvas").first().waitFor();
    expect(await page.locator("details[open]").count()).toBe(0);
    await announce(page, "beforeprint");
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    expect(await background(page)).toBe("rgb(255, 255, 255)");
    expect(await page.locator("details:not([open])").count()).toBe(0);
    await expect.poll(() => coloured(page, 0, "#0072b2")).toBeGreaterThan(100);
    expect(await width(page, "html")).toBe(718);
    await page.emulateMedia({ media: "screen", colorScheme: "dark" });
    await announce(page, "afterprint");
    await expect.poll(() => coloured(page, 0, "#56b4e9")).toBeGreaterThan(100);
    expect((await page.pdf({ format: "A4" })).length).toBeGreaterThan(100_000);
    expect(problems).toEqual([]);
    await page.close();
  });
});
