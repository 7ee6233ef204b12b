import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startEnvoy } from "./envoy.ts";
import { InVain, poll } from "./poll.ts";
import { TestProcess } from "./process.ts";
import { startRedis } from "./redis.ts";

/** Far longer than any of these tests may take. */
const NEVER_MS = 600_000;

const node = (script: string) => new TestProcess(process.execPath, ["--eval", script]);

describe("a part that does not start", () => {
  it("is not waited for once it has ended, and its last words are told", async () => {
    const part = node('console.log("half way"); console.error("no memory left"); process.exitCode = 3');
    const failure = await part.until("it to be ready", () => false, NEVER_MS).catch((error: Error) => error);
    expect(failure).toBeInstanceOf(InVain);
    expect(String(failure)).toMatch(/it to be ready: ended with \{"code":3,"signal":null\}.*half way.*no memory left/s);
    await expect(part.listening("admin", NEVER_MS)).rejects.toThrow("no memory left");
  });

  it("is waited for no longer than was said, and its last words are told", async () => {
    const part = node('console.error("still loading"); setInterval(() => {}, 1000)');
    try {
      await part.until("it to speak", () => part.stderr !== "");
      await expect(part.until("it to be ready", () => false, 10)).rejects.toThrow("still loading");
      await expect(part.ended(10)).rejects.toThrow("still loading");
    } finally {
      await part.stop();
    }
  });

  it("says so when its program is not there", async () => {
    const part = new TestProcess("/nonexistent/program", []);
    await expect(part.until("it to be ready", () => false, NEVER_MS)).rejects.toThrow("ENOENT");
  });

  it("Envoy: at once, with what Envoy says of its configuration", async () => {
    const edit = (yaml: string): string => yaml.replace("static_resources:", "statical_resources:");
    const started = startEnvoy({ variant: "standalone", eppPort: 9, serverPorts: [], edit });
    await expect(started).rejects.toThrow(/Envoy to be ready: ended with .*statical_resources/s);
  });

  it("Redis: at once, with what Redis says of its arguments", async () => {
    await expect(startRedis({ args: ["--no-such-option", "1"] })).rejects.toThrow(
      /Redis to be ready: ended with .*no-such-option/s,
    );
  });
});

describe("a part that nobody ended", () => {
  it("ends when the process that started it is told to end, as the test runner tells its workers", async () => {
    const module = JSON.stringify(join(import.meta.dirname, "process.ts"));
    const owner = node(`import(${module}).then(({ TestProcess }) => {
      const part = new TestProcess(process.execPath, ["--eval", "setInterval(() => {}, 1000)"]);
      console.log("part " + part.pid + ".");
    })`);
    const pid = Number((await owner.until("the part", () => /part (\d+)\./.exec(owner.stdout)))[1]);
    expect(existsSync(`/proc/${pid}/exe`)).toBe(true);
    await owner.stop("SIGTERM");
    expect(owner.exit).toEqual({ code: null, signal: "SIGTERM" });
    // Where nobody asks for the exit code of an orphan, its pid stays, but no program.
    await poll("the part to be gone", () => !existsSync(`/proc/${pid}/exe`));
  });
});
