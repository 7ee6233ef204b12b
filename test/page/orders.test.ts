import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { takeAxe, violations } from "../support/axe.ts";
import { FakePages } from "../support/feed/fake-pages.ts";
import { poll } from "../support/poll.ts";

/** A process that has something for each view. */
const ALL = { demo: true, replicas: true, batches: true };

describe("the page of a process with batches or controls", () => {
  const pages = new FakePages();

  beforeAll(() => pages.start());
  afterEach(() => pages.clear());
  afterAll(() => pages.stop());

  it("shows replicas and batches where the process has them, and no such view where it has none", async () => {
    const [, url] = await pages.feed(ALL);
    const page = await pages.open(`${url}/#/overview`);
    await page.getByRole("link", { name: "Replicas" }).click();
    const rows = page.getByRole("group", { name: "Replicas" }).locator("tbody tr");
    await rows.nth(2).waitFor();
    expect(await rows.nth(0).textContent()).toMatch(/^epp-0 this onelive.*/);
    expect(await rows.nth(1).textContent()).toMatch(/^epp-1 live.*120 ms ago30/);
    expect(await rows.nth(2).textContent()).toMatch(/^epp-2 gone.*ago.*–/);
    const main = page.locator(".main");
    expect(await main.textContent()).toContain("This replica knows what the others know.");
    // The own messages that the store hands back are no problem.
    expect(await main.textContent()).toMatch(/ignored0$/);
    await page.getByRole("link", { name: "Queues" }).click();
    const batches = page.getByRole("group", { name: "Batches" }).locator("tbody tr");
    await batches.nth(1).waitFor();
    expect(await batches.nth(0).textContent()).toMatch(
      /batch_7f4f8efe564237a1c4d40a559d072189–in progresscancel450 of 1,000 \(50 failed\).*too late/,
    );
    expect(await batches.nth(1).textContent()).toContain("completed");
    expect(await batches.nth(2).textContent()).toContain("line 17: custom_id");
    const tooWide = `(() => { const group = document.querySelector('[aria-label="Batches"]'); return group.scrollWidth - group.clientWidth; })()`;
    expect(await page.evaluate(tooWide)).toBe(0);
    expect(await main.textContent()).toContain("1 open, 550 lines left, 12/s");

    const [, bare] = await pages.feed();
    const without = await pages.open(`${bare}/#/queues`);
    await without.getByRole("heading", { name: "Bands" }).waitFor();
    expect(await without.getByRole("link", { name: "Replicas" }).count()).toBe(0);
    expect(await without.getByRole("heading", { name: "Batches" }).count()).toBe(0);
    await without.goto(`${bare}/#/replicas`);
    await without.getByText("This process has no such view").waitFor();
  });

  it("shows a batch server: batches, what holds them up, and the configuration", async () => {
    const [, url] = await pages.feed({ kind: "batch-server", batches: true });
    const page = await pages.open(url, { bypassCSP: true });
    await takeAxe(page);
    const views = page.getByRole("navigation", { name: "Views" }).getByRole("link");
    await poll("the views", async () => (await views.count()) === 3);
    expect((await views.allTextContents()).map((text) => text.replace(/\d.*/, ""))).toEqual([
      ...["Overview", "Batches", "Configuration"],
    ]);
    expect(await page.locator(".tiles").textContent()).toContain("lines of open batches");
    await views.nth(1).click();
    await page.getByRole("group", { name: "Batches" }).locator("tbody tr").nth(2).waitFor();
    await page.getByRole("heading", { name: "Capacities" }).waitFor();
    expect(await page.getByRole("heading", { name: "Queues of messages" }).count()).toBe(0);
    expect(await violations(page)).toEqual([]);
  });

  it("cancels a batch after it has asked, and only then", async () => {
    const [feed, url] = await pages.feed(ALL);
    const page = await pages.open(`${url}/#/queues`, { bypassCSP: true });
    await takeAxe(page);
    // What has ended cannot be cancelled.
    const buttons = page.getByRole("group", { name: "Batches" }).getByRole("button", { name: /^Cancel/ });
    await buttons.click();
    const dialog = page.getByRole("dialog", { name: "Cancel this batch?" });
    expect(await dialog.textContent()).toContain("550 lines of 1,000 without an answer");
    expect(await violations(page)).toEqual([]);
    // A no by keyboard, by the button that has the focus, and by Escape.
    for (const key of ["Enter", "Escape"]) {
      await page.keyboard.press(key);
      await dialog.waitFor({ state: "detached" });
      await buttons.click();
      await dialog.waitFor();
    }
    expect(feed.posts).toEqual([]);
    await dialog.getByRole("button", { name: "Cancel the batch" }).click();
    const answer = page.getByRole("status").filter({ hasText: "batch_7f4f8efe564237a1c4d40a559d072189" });
    await answer.getByText("is being cancelled").waitFor();
    expect(feed.posts).toEqual([
      { path: "/debug/batches/cancel", body: { id: "batch_7f4f8efe564237a1c4d40a559d072189" } },
    ]);
    await poll("no further order", async () => (await buttons.count()) === 0);
  });

  it("cancels a queued message after it has asked, from the list and by its ID", async () => {
    const [feed, url] = await pages.feed({ kind: "dispatch" });
    const page = await pages.open(`${url}/#/queues`, { bypassCSP: true });
    await takeAxe(page);
    const rows = page.getByRole("group", { name: "Next messages" }).locator("tbody tr");
    await rows.nth(3).waitFor();
    // An ID is a text, whatever is in it.
    await page.getByRole("button", { name: "Cancel <b>m-2</b>" }).click();
    const dialog = page.getByRole("dialog", { name: "Cancel this message?" });
    expect(await dialog.textContent()).toContain("<b>m-2</b>");
    expect(await violations(page)).toEqual([]);
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    expect(feed.posts).toEqual([]);
    await page.getByRole("button", { name: "Cancel <b>m-2</b>" }).click();
    await dialog.getByRole("button", { name: "Cancel the message" }).click();
    await rows.nth(1).getByText("marked").waitFor();
    expect(await rows.nth(2).textContent()).toMatch(/^unreadable–/);
    await page.getByLabel("Cancel another message, by its ID").fill("none");
    await page.keyboard.press("Enter");
    await dialog.getByRole("button", { name: "Cancel the message" }).click();
    await page.getByRole("alert").getByText("it has ended").waitFor();
    expect(feed.posts).toEqual(["<b>m-2</b>", "none"].map((id) => ({ path: "/debug/queues/cancel", body: { id } })));
    expect(await violations(page)).toEqual([]);
  });

  it("gives the orders of the demo", async () => {
    const [feed, url] = await pages.feed({ demo: true });
    const page = await pages.open(url);
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
