import { chmod, mkdtemp, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../../base/clock/clock.ts";
import { realClock } from "../../base/clock/real.ts";
import { keysCommand } from "./command.ts";

const NOW = Date.parse("2026-06-01T12:00:00Z");
const clock: Clock = { ...realClock, after: (...all) => realClock.after(...all), wall: () => NOW };
let folder = "";
let file = "";
let out = "";
let err = "";

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-keys-"));
  file = join(folder, "keys.yaml");
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function run(...args: readonly string[]): Promise<string> {
  out = "";
  err = "";
  const world = {
    clock,
    out(text: string) {
      out += text;
    },
    err(text: string) {
      err += text;
    },
  };
  await keysCommand(world).parseAsync([...args, "--file", file], { from: "user" });
  return out;
}

describe("sluice keys", () => {
  it("prints a new key alone on standard output, and writes the file for its owner alone", async () => {
    expect(await run("add", "--name", "a", "--expires", "30d", "--models", "m1, m2")).toMatch(
      /^sk-sluice-\w{12}-[\w-]{43}\n$/,
    );
    expect(err).toContain("its secret is only on standard output");
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const text = await readFile(file, "utf8");
    expect(text).toContain("expires: 2026-07-01T12:00:00Z");
    expect(text).toContain("- m1\n");
    expect(text).not.toContain(out.trim().slice(-43));
  });

  it("lists keys with their state and never a hash", async () => {
    await run("add", "--name", "a", "--priority", "-1", "--fairness-id", "f", "--chooses-flow", "--background");
    await run("add", "--name", "b", "--objective", "batch", "--expires", "2027-01-31T12:00:00Z");
    await run("revoke", "b");
    expect(err).toMatch(/^sluice: the key b \(id \w{12}\) is revoked in .*\n$/);
    const lines = (await run("list")).split("\n");
    expect(lines[0]).toMatch(/^NAME +ID +STATE +EXPIRES +CREATED +MODELS +FLOW$/);
    expect(lines[1]).toMatch(
      /^a +\w{12} +active +never +2026-06-01T12:00:00Z +all +priority -1, fairness f, client chooses, background$/,
    );
    expect(lines[2]).toMatch(/^b +\w{12} +revoked +2027-01-31T12:00:00Z +2026-06-01T12:00:00Z +all +objective batch$/);
    const json = JSON.parse(await run("list", "--json"));
    expect(json[1]).toMatchObject({ name: "b", state: "revoked", revoked: "2026-06-01T12:00:00Z", objective: "batch" });
    expect(out).not.toContain("sha256");
    await run("revoke", "b", "--remove");
    expect(err).toContain("is no longer in");
    expect(JSON.parse(await run("list", "--json"))).toHaveLength(1);
  });

  it("rotates a key, and says how long the old one counts", async () => {
    const first = await run("add", "--name", "a");
    const second = await run("rotate", "a", "--grace", "7d");
    expect(second.slice(0, 23)).toBe(first.slice(0, 23));
    expect(second).not.toBe(first);
    expect(err).toContain("the gateway accepts the old secret until 2026-06-08T12:00:00Z");
    expect(await run("list", "--json")).toContain('"oldSecretUntil": "2026-06-08T12:00:00Z"');
    await run("rotate", "a");
    expect(err).toContain("the gateway refuses the old secret");
  });

  it.each([
    [["add"], "FLAG_MISSING", "give --name NAME"],
    [["add", "--name", "a", "--objective", "o", "--priority", "1"], "FLAG_CONFLICT", "not both"],
    [["add", "--name", "a", "--priority", "high"], "FLAG_VALUE", "a whole number of 32 bits"],
    [["add", "--name", "a", "--priority", "2147483648"], "FLAG_VALUE", "a whole number of 32 bits"],
    [["add", "--name", "a", "--expires", "soon"], "FLAG_VALUE", "30d, 12h or a time such as"],
    [["add", "--name", "a", "--expires", "2020-01-01T00:00:00Z"], "FLAG_VALUE", "which is in the past"],
    [["add", "--name", "a", "--expires", "0"], "FLAG_VALUE", "which is in the past"],
    [["add", "--name", "a", "--models", "x,,y"], "FLAG_VALUE", "names separated by commas"],
    [["rotate", "a", "--grace", "-1h"], "FLAG_VALUE", "a duration such as"],
    [["revoke", "nobody"], "KEY_NAME", 'has no key "nobody"; the file is empty or does not exist'],
    [["list"], "DOCUMENT_MISSING", "does not exist"],
    [["lst"], "COMMAND_UNKNOWN", "did you mean list?"],
    [["add", "--nam", "a"], "FLAG_UNKNOWN", "did you mean --name?"],
  ])("%j is refused, and no file is made", async (args, code, message) => {
    await expect(run(...args)).rejects.toMatchObject({ code, message: expect.stringContaining(message) });
    await expect(stat(file)).rejects.toThrow("ENOENT");
  });

  it("keeps what two commands at a time write", async () => {
    const world = { clock, out: () => {}, err: () => {} };
    const names = Array.from({ length: 8 }, (_, i) => `n${i}`);
    const add = (name: string) =>
      keysCommand(world).parseAsync(["add", "--name", name, "--file", file], { from: "user" });
    await Promise.all(names.map(add));
    const listed = JSON.parse(await run("list", "--json")) as { name: string }[];
    expect(listed.map(({ name }) => name).sort()).toEqual(names);
    await expect(stat(`${file}.lock`)).rejects.toThrow("ENOENT");
  });

  it("waits for a lock only so long, and names the file to remove", async () => {
    await writeFile(`${file}.lock`, "");
    const hurried: Clock = { ...clock, after: (_, callback) => realClock.after(0, callback) };
    const world = { clock: hurried, out: () => {}, err: () => {} };
    const adding = keysCommand(world).parseAsync(["add", "--name", "a", "--file", file], { from: "user" });
    await expect(adding).rejects.toMatchObject({
      code: "KEYS_FILE_BUSY",
      message: expect.stringContaining(`the lock ${file}.lock shows`),
    });
  });

  it("keeps the file behind a link, and the rights of its group", async () => {
    await run("add", "--name", "a");
    await chmod(file, 0o664);
    const link = join(folder, "link.yaml");
    await symlink(file, link);
    const real = file;
    file = link;
    await run("add", "--name", "b");
    expect(await readFile(real, "utf8")).toContain("name: b");
    expect((await stat(real)).mode & 0o777).toBe(0o660);
  });

  it("leaves a file that is wrong as it is", async () => {
    await writeFile(file, "keys: [{ nam: a }]");
    await expect(run("add", "--name", "b")).rejects.toMatchObject({ code: "DOCUMENT_INVALID" });
    expect(await readFile(file, "utf8")).toBe("keys: [{ nam: a }]");
    await expect(stat(`${file}.lock`)).rejects.toThrow("ENOENT");
  });
});
