import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { fixedLimit } from "../../test/support/slowness.ts";
import { cacheFolder } from "./compile-cache.ts";

const OWNERS: Readonly<Record<string, number>> = { "/home/mine": 1000, "/home/root": 0, "/caches": 1000 };
const folderOf = (env: Readonly<Record<string, string>>, uid: number | undefined = 1000): string | undefined =>
  cacheFolder(env, uid, (folder) => OWNERS[folder]);

describe("the folder of compiled code", () => {
  it.each([
    ["in the cache folder of the user", { XDG_CACHE_HOME: "/caches", HOME: "/home/mine" }, "/caches/sluice"],
    ["below the home of the user", { HOME: "/home/mine" }, "/home/mine/.cache/sluice"],
    ["not in a relative folder", { XDG_CACHE_HOME: "caches", HOME: "/home/mine" }, "/home/mine/.cache/sluice"],
    ["nowhere in the home of another user", { HOME: "/home/root" }, undefined],
    ["nowhere in a home that is not there", { HOME: "/home/none" }, undefined],
    ["nowhere without a home", {}, undefined],
  ])("is %s", (_, env, folder) => {
    expect(folderOf(env)).toBe(folder);
  });

  it("is nowhere on a system without user numbers", () => {
    expect(cacheFolder({ HOME: "/home/mine" }, undefined, () => 0)).toBeUndefined();
  });
});

describe("sluice", () => {
  const home = mkdtempSync(join(tmpdir(), "sluice-compile-cache-"));
  afterAll(() => rmSync(home, { recursive: true }));

  /** Runs `sluice --help` with a home of its own. @returns the folders of the cache in that home */
  function kept(name: string, more: Readonly<Record<string, string>> = {}): readonly string[] {
    const folder = join(home, name);
    mkdirSync(folder);
    const env = { PATH: process.env["PATH"], HOME: folder, ...more };
    const main = join(import.meta.dirname, "main.ts");
    const run = spawnSync(process.execPath, [main, "--help"], { env, encoding: "utf8", timeout: fixedLimit(20_000) });
    expect([run.status, run.stderr]).toEqual([0, ""]);
    const cache = join(folder, ".cache", "sluice");
    return existsSync(cache) ? readdirSync(cache) : [];
  }

  it("keeps what Node.js compiled in the home of the user", () => {
    expect(kept("plain")).toHaveLength(1);
  });

  it("keeps nothing there when Node.js has a folder, or shall keep nothing", () => {
    expect(kept("off", { NODE_DISABLE_COMPILE_CACHE: "1" })).toEqual([]);
    expect(kept("other", { NODE_COMPILE_CACHE: join(home, "elsewhere") })).toEqual([]);
    expect(existsSync(join(home, "elsewhere"))).toBe(true);
  });
});
