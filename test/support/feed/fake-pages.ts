import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { startChromium } from "../chromium.ts";
import { poll } from "../poll.ts";
import { fixedLimit } from "../slowness.ts";
import { FakeFeed, type FakeFeedOptions } from "./fake-feed.ts";

/** Pages in Chromium, of processes that are made up. */
export class FakePages {
  readonly #feeds: FakeFeed[] = [];
  readonly #pages: Page[] = [];
  #browser: Browser | undefined;

  async start(): Promise<void> {
    this.#browser = await startChromium();
  }

  /** A process, and its address. */
  async feed(options: FakeFeedOptions = {}): Promise<[FakeFeed, string]> {
    const feed = new FakeFeed(options);
    this.#feeds.push(feed);
    return [feed, await feed.listen()];
  }

  /** A page that shows nothing yet. */
  async page(options: BrowserContextOptions = {}): Promise<Page> {
    const page = await this.#browser!.newPage({ viewport: { width: 1280, height: 800 }, ...options });
    this.#pages.push(page);
    page.setDefaultTimeout(fixedLimit(20_000));
    return page;
  }

  /** A page that is connected. */
  async open(url: string, options: BrowserContextOptions = {}): Promise<Page> {
    const page = await this.page(options);
    await page.goto(url);
    await page.locator(".connection.live").waitFor();
    return page;
  }

  /** Closes all pages and processes of a test. */
  async clear(): Promise<void> {
    await Promise.all(this.#pages.splice(0).map((page) => page.close()));
    await Promise.all(this.#feeds.splice(0).map((feed) => feed.close()));
  }

  async stop(): Promise<void> {
    await this.#browser?.close();
  }
}

/** Waits until the view has its figures. Asked without code in the page, which its policy refuses. */
export function loaded(page: Page): Promise<boolean> {
  return poll("the figures", async () => !(await page.locator(".main").textContent())!.includes("Loading"));
}
