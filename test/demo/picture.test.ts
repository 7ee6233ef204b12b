import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startChromium } from "../support/chromium.ts";
import { onFreePorts } from "../support/free-port.ts";
import { poll } from "../support/poll.ts";
import { ROOT, sluice } from "../support/process.ts";
import { fixedLimit } from "../support/slowness.ts";

// Takes the pictures of README.md and docs/operate/page.md from a run of the demo. To renew them:
//   SLUICE_PICTURES=docs/images SLUICE_LANE=parts npx vitest run test/demo/picture.test.ts

const RENEWED_IN = process.env["SLUICE_PICTURES"];
const KEPT_IN = RENEWED_IN ?? process.env["SLUICE_SCREENSHOTS"];
/** Seconds that Sluice has routed in a picture for the documents, so that its figures are not those of its first requests. */
const ROUTED_SECONDS = RENEWED_IN === undefined ? 0 : 30;
/** CSS pixels. */
const VIEWPORT = { width: 1280, height: 760 };
/** Pixels of the picture for each. */
const SCALE = 1.5;
const MAX_BYTES = 350_000;
/** As high as the candidates of a decision need. */
const DECISION_VIEWPORT = { width: 1280, height: 1120 };

/** Width and height of a PNG file, from its first chunk. */
function sizeOf(png: Buffer): { width: number; height: number } {
  expect(png.subarray(1, 4).toString()).toBe("PNG");
  return { width: png.readUInt32BE(16), height: png.readUInt32BE(20) };
}

/** Keeps a picture where that is wanted. The committed one has the size of the one that was taken. */
function keep(name: string, taken: Buffer): void {
  if (KEPT_IN !== undefined) writeFileSync(join(KEPT_IN, name), taken);
  const kept = readFileSync(join(ROOT, "docs", "images", name));
  expect([name, sizeOf(kept)]).toEqual([name, sizeOf(taken)]);
  expect(kept.length).toBeLessThanOrEqual(MAX_BYTES);
}

describe("the pictures of the page", () => {
  it("show the demo with both policies side by side, and one decision", async () => {
    const demo = await onFreePorts(async () => {
      const process = sluice("demo");
      await process.until("both halves", () => process.stdout.includes("control it on the page"), 90_000);
      return process;
    });
    const browser = await startChromium();
    try {
      const page = await browser.newPage({ viewport: VIEWPORT, deviceScaleFactor: SCALE, colorScheme: "light" });
      page.setDefaultTimeout(fixedLimit(30_000));
      await page.goto(`http://${await demo.listening("admin")}/`);
      // The demo opens on its own view, with the figures of both halves.
      const table = page.locator("table.compare");
      await table
        .getByText(/(?:×|%) (?:better|behind)/)
        .first()
        .waitFor();
      await poll(
        "the figures of Sluice",
        async () => {
          const heads = (await table.locator("thead").textContent()) ?? "";
          return Number(/ in ([\d.]+) s(?!.* in )/.exec(heads)?.[1] ?? 60) >= ROUTED_SECONDS;
        },
        90_000,
      );
      await page.getByRole("button", { name: /^Kill/ }).first().waitFor();
      expect(await table.locator("tbody tr").count()).toBe(5);
      expect(await page.getByRole("button", { name: /^Kill/ }).count()).toBe(3);
      await page.locator(".plot-box canvas").nth(2).waitFor();
      keep("demo.png", await page.screenshot());

      // A request that has ended: its way is complete.
      await page.getByRole("link", { name: "Decisions", exact: true }).click();
      const ended = page.getByText("200", { exact: true });
      const row = page.locator("tbody tr", { hasText: "prefix", has: ended });
      await page.setViewportSize(DECISION_VIEWPORT);
      await row.first().getByRole("link").first().click();
      await page.locator(".steps").getByText("answered, status 200").waitFor();
      await page.locator("table.candidates tbody tr").nth(2).waitFor();
      expect(await page.locator("table.candidates thead").textContent()).toContain("prefix-cache × 3");
      keep("page.png", await page.screenshot());
    } finally {
      await browser.close();
      await demo.stop();
    }
  });
});
