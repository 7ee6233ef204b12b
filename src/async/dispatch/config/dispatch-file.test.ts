import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { z } from "zod";
import type { SluiceError } from "../../../base/inference/errors.ts";
import { type DispatchFile, readDispatchFile } from "./dispatch-file.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-dispatch-file-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const path = join(folder, "dispatch.yaml");
const flags = { concurrency: z.int().min(1), "prometheus-url": z.string() };

function read(text: string): Promise<DispatchFile> {
  writeFileSync(path, text);
  return readDispatchFile(path, flags);
}

async function failure(text: string): Promise<string> {
  try {
    await read(text);
  } catch (error) {
    expect((error as SluiceError).code).toMatch(/^DOCUMENT_/);
    return (error as SluiceError).message.replaceAll(path, "d.yaml").replaceAll(folder, "FOLDER");
  }
  throw new Error("accepted");
}

describe("readDispatchFile", () => {
  it("has the flags that are there, and sections with the positions of the file", async () => {
    writeFileSync(join(folder, "gate.ts"), "");
    const file = await read(`# comment
concurrency: 3
transport: sqlite
transport-config:
  path: queue.db
pool-config:
- id: a
  workers: 2
plugins: [gate.ts]
`);
    expect(file.values).toEqual({ concurrency: 3 });
    expect(file.transport).toBe("sqlite");
    expect(file.plugins).toEqual([join(folder, "gate.ts")]);
    expect(file.placeOf("concurrency")).toBe(`${path}:2:1: concurrency`);
    expect(file.section("request-merge-policy-config")).toBeUndefined();
    expect(file.section("transform-config")).toBeUndefined();
    const section = file.section("transport-config")!;
    expect(section).toMatchObject({ file: path, folder, value: { path: "queue.db" } });
    expect(section.positionOf(["path"])).toEqual({ file: path, line: 5, column: 3 });
    expect(file.section("pool-config")!.positionOf([0, "workers"])).toEqual({ file: path, line: 8, column: 3 });
  });

  it.each([
    ["concurency: 3", "d.yaml:1:1: concurency: unknown key `concurency`; did you mean `concurrency`?"],
    [
      "transport_config: {}",
      "d.yaml:1:1: transport_config: unknown key `transport_config`; did you mean `transport-config`?",
    ],
    ["redis.url: x", 'd.yaml:1:1: ["redis.url"]: unknown key `redis.url`'],
    ["concurrency: many", 'd.yaml:1:1: concurrency: expected a number, got the string "many"'],
    ["prometheus-url:", "d.yaml:1:1: prometheus-url: expected a string, got nothing"],
    [
      "transport: redis-sortedest",
      'd.yaml:1:1: transport: expected one of `redis-sortedset`, `redis-pubsub`, `gcp-pubsub`, `sqlite`, got the string "redis-sortedest"; did you mean `redis-sortedset`?',
    ],
    [
      "transport-config: /etc/transport.json",
      'd.yaml:1:1: transport-config: expected a mapping, got the string "/etc/transport.json"',
    ],
    ["pool-config: {id: a}", "d.yaml:1:1: pool-config: expected a list, got a mapping"],
    ["request-merge-policy-config: []", "d.yaml:1:1: request-merge-policy-config: expected a mapping, got a list"],
    ["transform-config:", "d.yaml:1:1: transform-config: expected a mapping, got nothing"],
    ["plugins:\n- missing.ts", "d.yaml:2:3: plugins[0]: there is no file FOLDER/missing.ts"],
    ["plugins: one.ts", 'd.yaml:1:1: plugins: expected a list, got the string "one.ts"'],
    ["- a", "d.yaml:1:1: expected a mapping, got a list"],
  ])("refuses %s", async (text, message) => {
    expect(await failure(text)).toBe(`invalid dispatch configuration: ${message}`);
  });

  it("says what is wrong with the text itself", async () => {
    expect(await failure("a: [1")).toMatch(/^d\.yaml:1:4: /);
    await expect(readDispatchFile(join(folder, "none.yaml"), flags)).rejects.toThrow("none.yaml does not exist");
  });
});
