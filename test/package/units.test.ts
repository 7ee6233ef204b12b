import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { onPath } from "../../scripts/part-cache.ts";
import { ask } from "../support/client.ts";
import { newKeys } from "../support/keys.ts";
import { compiledBefore, PROGRAM, ROOT, TestProcess } from "../support/process.ts";

const FOLDER = join(ROOT, "deploy", "systemd");
const UNITS = ["sluice-gateway", "sluice-dispatch"] as const;
const text = (name: string): string => readFileSync(join(FOLDER, `${name}.service`), "utf8");

/** The settings of a unit in order, without comments. */
function settingsOf(unit: string): readonly (readonly [name: string, value: string])[] {
  return text(unit)
    .split("\n")
    .filter((line) => line !== "" && !/^[#[]/.test(line))
    .map((line) => {
      const [, name, value] = /^(\w+)=(.*)$/.exec(line) ?? [];
      expect(name, line).toBeDefined();
      return [name!, value!] as const;
    });
}
const only = (unit: string, name: string): string => {
  const found = settingsOf(unit).filter(([known]) => known === name);
  expect(found.length, name).toBe(1);
  return found[0]![1];
};

const left: TestProcess[] = [];
afterEach(async () => {
  await Promise.all(left.splice(0).map((each) => each.stop()));
});

/** Starts the command line of a unit with the files of `etc` for those in /etc/sluice. */
function start(unit: string, etc: string, more: string, env: Readonly<Record<string, string>> = {}): TestProcess {
  const line = only(unit, "ExecStart").replaceAll("/etc/sluice/", `${etc}/`);
  const words = line.replace(/\$[A-Z]+_FLAGS$/, more).split(" ");
  expect(words.shift()).toBe("sluice");
  const own = settingsOf(unit).filter(([name]) => name === "Environment");
  const environment = Object.fromEntries(
    own.map(([, value]) => [value.split("=")[0]!, value.slice(value.indexOf("=") + 1)]),
  );
  const started = new TestProcess(process.execPath, [PROGRAM, ...words], {
    cwd: "/",
    env: { PATH: process.env["PATH"], ...compiledBefore(), ...environment, ...env },
  });
  left.push(started);
  return started;
}

describe("deploy/systemd", () => {
  const analyze = onPath("systemd-analyze");
  it.runIf(analyze !== undefined)("is what systemd takes without a complaint, and calls well protected", () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-units-"));
    const files = UNITS.map((unit) => {
      const file = join(folder, `${unit}.service`);
      // Sluice is not installed here.
      writeFileSync(file, text(unit).replace("ExecStart=sluice ", "ExecStart=/bin/true "));
      return file;
    });
    const { status, stdout, stderr } = spawnSync(analyze!, ["verify", ...files], { encoding: "utf8" });
    expect([status, stdout + stderr]).toEqual([0, ""]);
    for (const file of files) {
      const said = execFileSync(analyze!, ["security", "--offline=true", "--threshold=20", file], { encoding: "utf8" });
      expect(said).toContain("Overall exposure level");
    }
  });

  it.each(UNITS)("%s runs as a user without privileges, ends in its time, and starts again after a crash", (unit) => {
    const settings = settingsOf(unit);
    for (const given of [
      ["User", "sluice"],
      ["NoNewPrivileges", "yes"],
      ["ProtectSystem", "strict"],
      ["ProtectHome", "yes"],
      ["CapabilityBoundingSet", ""],
      ["Restart", "on-failure"],
      ["Type", "exec"],
      ["LimitCORE", "0"],
    ])
      expect(settings).toContainEqual(given);
    expect(Number(only(unit, "LimitNOFILE"))).toBeGreaterThanOrEqual(65_536);
    const afterDrain = unit === "sluice-gateway" ? 30 : 125;
    expect(Number(only(unit, "TimeoutStopSec"))).toBeGreaterThan(afterDrain);
    // The user that they name is one that the sysusers file makes.
    expect(readFileSync(join(FOLDER, "sluice.sysusers.conf"), "utf8")).toMatch(/^u sluice - /m);
  });

  it("starts a gateway that asks for keys, and lets it stop", async () => {
    const etc = mkdtempSync(join(tmpdir(), "sluice-etc-"));
    writeFileSync(
      join(etc, "endpoints.yaml"),
      "endpoints: [{ name: a, address: 127.0.0.1, port: 9, models: [sim] }]\n",
    );
    const { text: keys, key } = await newKeys("me");
    writeFileSync(join(etc, "keys.yaml"), keys, { mode: 0o600 });
    // Of two values the last counts: the ports of the unit may be taken here.
    const gateway = start("sluice-gateway", etc, "--listen 127.0.0.1:0 --admin 127.0.0.1:0");
    const url = `http://${await gateway.listening("gateway")}/v1/models`;
    expect((await ask(url)).status).toBe(401);
    expect((await ask(url, { headers: { authorization: `Bearer ${key}` } })).status).toBe(200);
    await gateway.stop("SIGTERM");
    expect(gateway.exit).toEqual({ code: 0, signal: null });
  });

  it("starts a dispatcher with a queue file in its folder, and lets it stop", async () => {
    const etc = mkdtempSync(join(tmpdir(), "sluice-etc-"));
    const state = join(etc, "lib");
    mkdirSync(state);
    writeFileSync(
      join(etc, "dispatch.yaml"),
      `transport: sqlite\ntransport-config: { path: ${state}/queue.db, queues: [{ queue_name: q, igw_base_url: "http://127.0.0.1:9" }] }\n` +
        "bind-address: 127.0.0.1\n",
    );
    const dispatch = start("sluice-dispatch", etc, "--health-port 0 --metrics-port 0", { SLUICE_GATEWAY_KEY: "sk-1" });
    const url = `http://${await dispatch.listening("health")}/readyz`;
    await dispatch.until("it to be ready", async () => (await ask(url)).status === 200);
    await dispatch.stop("SIGTERM");
    expect(dispatch.exit).toEqual({ code: 0, signal: null });
  });
});
