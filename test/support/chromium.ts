import { type Browser, chromium } from "playwright-core";
import { chromium as findChromium } from "../../scripts/test-parts.ts";
import { fixedLimit } from "./slowness.ts";

/** A Chromium that asks no server but the test's. */
export function startChromium(): Promise<Browser> {
  return chromium.launch({
    executablePath: findChromium(),
    timeout: fixedLimit(30_000),
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}
