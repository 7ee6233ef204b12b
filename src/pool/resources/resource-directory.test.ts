import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { poll } from "../../../test/support/poll.ts";
import { realClock } from "../../base/clock/real.ts";
import type { PoolIdentity } from "./pool-choice.ts";
import { ResourceDirectory } from "./resource-directory.ts";
import { ResourceStore } from "./resource-store.ts";

let path = "";
const open: ResourceDirectory[] = [];

beforeEach(async () => {
  path = await mkdtemp(join(tmpdir(), "sluice-resources-"));
});

afterEach(async () => {
  for (const directory of open.splice(0)) directory.close();
  await rm(path, { recursive: true, force: true });
});

function setUp(pool?: PoolIdentity) {
  const warnings: string[] = [];
  const infos: string[] = [];
  const log = { warn: (text: string) => void warnings.push(text), info: (text: string) => void infos.push(text) };
  const store = new ResourceStore({ ...(pool && { pool }), notice: log.warn });
  const directory = new ResourceDirectory({ path, store, clock: realClock, log });
  open.push(directory);
  const target = (modelName = "chat") => store.model(modelName)?.model.targets[0]?.name ?? "none";
  return { store, directory, warnings, infos, target };
}

const write = (name: string, text: string) => writeFile(join(path, name), text);
const API = "apiVersion: inference.networking.x-k8s.io/v1alpha2\n";
const pool = (name = "pool") =>
  `${API}kind: InferencePool\nmetadata: {name: ${name}}\nspec: {selector: {app: vllm}, targetPortNumber: 8000, extensionRef: {name: epp}}\n`;
const model = (target: string, name = "m") =>
  `${API}kind: InferenceModel\nmetadata: {name: ${name}}\nspec: {modelName: chat, targetModels: [{name: ${target}}], poolRef: {name: pool}}\n`;

describe("ResourceDirectory at start", () => {
  it("has filled the store when start resolves, and says what it found", async () => {
    await write("pool.yaml", pool());
    await write("models.yaml", model("v1"));
    const { directory, store, target, infos } = setUp();
    await directory.start();
    expect([store.synced, target()]).toEqual([true, "v1"]);
    expect(infos).toEqual([
      `resources: ${path}: 2 objects in 2 files, pool default/pool of inference.networking.x-k8s.io`,
    ]);
  });

  it("starts without a pool, and says what that means and which others there are (E-130)", async () => {
    const empty = setUp();
    await empty.directory.start();
    expect([empty.store.synced, empty.warnings]).toEqual([
      false,
      [
        `resources: ${path}: 0 objects in 0 files, but not the InferencePool of this process; not ready: requests get 503 until the pool exists`,
      ],
    ]);
    await write("pool.yaml", pool());
    const named = setUp({ name: "ours" });
    await named.directory.start();
    expect(named.warnings[0]).toContain(
      "but not the InferencePool of this process (the files have default/pool); not ready",
    );
  });

  it("says which objects do nothing: a pool that is not there, a model name that another one has", async () => {
    await write("pool.yaml", pool());
    await write("other.yaml", pool("other"));
    const model = (name: string, modelName: string, pool: string, more = "") =>
      `${API}kind: InferenceModel\nmetadata: {name: ${name}${more}}\nspec: {modelName: ${modelName}, poolRef: {name: ${pool}}}\n`;
    await write("a.yaml", model("typing-error", "x", "pol"));
    await write("b.yaml", model("elsewhere", "x", "pool", ", namespace: prod"));
    await write("c.yaml", model("of-the-other", "x", "other"));
    await write("d.yaml", [model("second", "chat", "pool"), model("first", "chat", "pool")].join("---\n"));
    const { directory, warnings } = setUp({ name: "pool" });
    await directory.start();
    const first = "wins, first by metadata.creationTimestamp, then by name";
    const expected = [
      "InferenceModel default/typing-error has no effect: there is no InferencePool default/pol; this process serves default/pool; did you mean `default/pool`?",
      "InferenceModel prod/elsewhere has no effect: there is no InferencePool prod/pool; this process serves default/pool",
      `InferenceModel default/second has no effect: default/first has the same modelName and ${first}`,
    ];
    expect(warnings).toEqual(expected.map((line) => `resources: ${line}`));
    warnings.length = 0;
    await write("e.yaml", model("third", "chat", "pool"));
    await poll("the new one to be told", () => warnings.length > 0);
    const third = `resources: InferenceModel default/third has no effect: default/first has the same modelName and ${first}`;
    expect(warnings).toEqual([third]);
  });

  it("refuses any unusable file with its place, several pools, a missing folder; the store stays empty", async () => {
    await write("pool.yaml", pool());
    await write("a.yaml", "kind: [\n");
    await write("b.yaml", model("v1").replace("modelName", "modelNam"));
    const files = setUp();
    await expect(files.directory.start()).rejects.toMatchObject({
      code: "RESOURCES_FILE",
      message: expect.stringMatching(/a\.yaml:1:7: .*\n\(and 1 more\)$/),
    });
    expect(files.store.size).toBe(0);
    await rm(join(path, "a.yaml"));
    await write("b.yaml", pool("second"));
    await expect(setUp().directory.start()).rejects.toMatchObject({
      code: "POOL_AMBIGUOUS",
      message: "there are 2 InferencePools: default/pool, default/second; choose one with --pool-name",
    });
    await expect(setUp({ name: "second" }).directory.start()).resolves.toBeUndefined();
    await rm(path, { recursive: true });
    await expect(setUp().directory.start()).rejects.toMatchObject({ code: "RESOURCES_FOLDER" });
  });
});

describe("ResourceDirectory while it follows", () => {
  it("sees files that come, change, are replaced by renaming, and go", async () => {
    await write("pool.yaml", pool());
    const { directory, store, target } = setUp();
    await directory.start();
    await write("models.yaml", model("v1"));
    await poll("a new file", () => target() === "v1");
    await write("models.yaml", model("v2"));
    await poll("a changed file", () => target() === "v2");
    await write("models.tmp", model("v3"));
    await rename(join(path, "models.tmp"), join(path, "models.yaml"));
    await poll("a replaced file", () => target() === "v3");
    await rm(join(path, "models.yaml"));
    await poll("a removed file", () => target() === "none");
    await rm(join(path, "pool.yaml"));
    await poll("the pool gone", () => !store.synced);
    await write("pool.yaml", pool());
    await poll("the pool back", () => store.synced);
  });

  it("sees the symlink swap of a mounted ConfigMap, and counts its files once", async () => {
    const version = async (name: string, text: string) => {
      await mkdir(join(path, name));
      await writeFile(join(path, name, "all.yaml"), text);
      await symlink(name, join(path, "..data_tmp"));
      await rename(join(path, "..data_tmp"), join(path, "..data"));
    };
    await version("..1", `${pool()}---\n${model("v1")}`);
    await symlink(join("..data", "all.yaml"), join(path, "all.yaml"));
    const { directory, target } = setUp();
    await directory.start();
    expect(target()).toBe("v1");
    for (const [at, next] of ["v2", "v3"].entries()) {
      await version(`..${at + 2}`, `${pool()}---\n${model(next)}`);
      await rm(join(path, `..${at + 1}`), { recursive: true });
      await poll("the swap", () => target() === next);
    }
  });

  it("keeps a broken file in force as it last was, says where it is broken, and follows the others", async () => {
    await write("pool.yaml", pool());
    await write("models.yaml", model("v1"));
    const { directory, store, target, warnings } = setUp();
    await directory.start();
    await write("models.yaml", `${model("v2")}--- [`);
    await poll("the warning", () => warnings.length > 0);
    expect(warnings[0]).toMatch(
      /^resources: Sluice keeps the last good version of a file: .*models\.yaml:5:5: [^\n]*$/,
    );
    expect(target()).toBe("v1");
    await write(
      "more.yaml",
      `${API}kind: InferenceObjective\nmetadata: {name: o}\nspec: {priority: 3, poolRef: {name: pool, group: inference.networking.x-k8s.io}}\n`,
    );
    await poll("the other file", () => store.objective("o") === 3);
    expect([target(), warnings.length]).toEqual(["v1", 1]);
    await write("models.yaml", model("v3"));
    await poll("recovery", () => target() === "v3");
  });

  it("changes nothing when the folder as a whole makes no sense, and recovers", async () => {
    await write("pool.yaml", pool());
    await write("models.yaml", model("v1"));
    const { directory, store, target, warnings } = setUp();
    await directory.start();
    const steps: [() => Promise<unknown>, RegExp, () => Promise<unknown>][] = [
      [
        () => write("twice.yaml", model("v2")),
        /InferenceModel default\/m is in .* and in /,
        () => rm(join(path, "twice.yaml")),
      ],
      [() => write("second.yaml", pool("second")), /there are 2 InferencePools/, () => rm(join(path, "second.yaml"))],
    ];
    for (const [spoil, message, mend] of steps) {
      const before = warnings.length;
      const now = target();
      await spoil();
      await poll("the warning", () => warnings.length > before);
      expect(warnings.at(-1)).toMatch(/^resources: Sluice keeps the previous objects: /);
      expect(warnings.at(-1)).toMatch(message);
      expect([store.pool?.meta.name, target()]).toEqual(["pool", now]);
      await mend();
      await write("models.yaml", model(`after-${before}`));
      await poll("recovery", () => target() === `after-${before}`);
    }
  });

  it("tells at most twenty broken files one by one", async () => {
    await write("pool.yaml", pool());
    const { directory, warnings, store } = setUp();
    await directory.start();
    await rm(join(path, "pool.yaml"));
    await Promise.all(Array.from({ length: 25 }, (_, i) => write(`z${i}.yaml`, "[")));
    await poll("the warnings", () => !store.synced && warnings.some((text) => /more files/.test(text)));
    expect(warnings.filter((text) => text.includes("Sluice keeps the last good version of a file"))).toHaveLength(20);
    expect(warnings).toContain("resources: 5 more files: Sluice keeps their last good versions");
  });

  it("changes nothing after close", async () => {
    await write("pool.yaml", pool());
    const first = setUp();
    const second = setUp();
    await first.directory.start();
    await second.directory.start();
    first.directory.close();
    await write("models.yaml", model("v1"));
    await poll("the one that still follows", () => second.target() === "v1");
    expect(first.target()).toBe("none");
  });
});
