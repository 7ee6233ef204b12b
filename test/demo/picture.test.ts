import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startChromium } from "../support/chromium.ts";
import { onFreePorts } from "../support/free-port.ts";
import { poll } from "../support/poll.ts";
import { ROOT, sluice } from "../support/process.ts";
import { fixedLimit } from "../support/slowness.ts";

// Takes the picture of README.md from a run of the demo. To renew the picture:
//   SLUICE_SCREENSHOTS=docs/images SLUICE_LANE=parts npx vitest run test/demo/picture.test.ts

const KEPT_IN = process.env["SLUICE_SCREENSHOTS"];
/** CSS pixels. */
const VIEWPORT = { width: 1200, height: 540 };
/** Pixels of the picture for each. */
const SCALE = 1.5;
const MAX_BYTES = 200_000;

/** Width and height of a PNG file, from its first chunk. */
function sizeOf(png: Buffer): { width: number; height: number } {
  expect(png.subarray(1, 4).toString()).toBe("PNG");
  return { width: png.readUInt32BE(16), height: png.readUInt32BE(20) };
}

describe("the picture in README.md", () => {
  it("shows what the page of the demo shows: endpoints, decisions, and the scores of one decision", async () => {
    const demo = await onFreePorts(async () => {
      const process = sluice("demo");
      // The second half: the traffic is routed by the default profile.
      await process.until("the second half", () => process.stdout.includes("second half"), 60_000);
      return process;
    });
    const browser = await startChromium();
    try {
      const page = await browser.newPage({ viewport: VIEWPORT, deviceScaleFactor: SCALE, colorScheme: "light" });
      page.setDefaultTimeout(fixedLimit(30_000));
      await page.goto(`http://${await demo.listening("admin")}/`);
      await page.locator("#status.live").waitFor();
      const line = page.locator("#decisions button", { hasText: "prefix" });
      const detail = page.locator(".detail table");
      await line.nth(5).waitFor();
      const taken = await poll("the picture", async () => {
        await page.locator("#hold").check();
        await line.first().click();
        await detail.waitFor();
        const picture = await page.screenshot();
        const isFresh = (await page.locator(".state.up").count()) === 3 && !(await detail.textContent())!.includes("?");
        if (isFresh || KEPT_IN === undefined) return picture;
        // A busy machine scrapes late. The kept picture shows an ordinary moment, so a later decision is tried.
        await line.first().click();
        await page.locator("#hold").uncheck();
        return undefined;
      });
      expect(await page.locator("#endpoints tbody tr").count()).toBe(3);
      expect(await page.locator(".detail thead").textContent()).toContain("prefix-cache-scorer");
      if (KEPT_IN !== undefined) writeFileSync(join(KEPT_IN, "demo.png"), taken);
      const kept = readFileSync(join(ROOT, "docs", "images", "demo.png"));
      expect(sizeOf(kept)).toEqual(sizeOf(taken));
      expect(kept.length).toBeLessThanOrEqual(MAX_BYTES);
    } finally {
      await browser.close();
      await demo.stop();
    }
  });
});
