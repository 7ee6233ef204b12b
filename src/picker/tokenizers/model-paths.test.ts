import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { ModelPaths, modelOf, REAL_FILES } from "./model-paths.ts";

/** Whether the volume hangs, and how many calls hang. */
let hangs = false;
let hung = 0;
const hang = (): Promise<never> => {
  hung++;
  return new Promise(() => {});
};
const FILES: typeof REAL_FILES = {
  stat: (path) => (hangs ? hang() : REAL_FILES.stat(path)),
  list: (path) => (hangs ? hang() : REAL_FILES.list(path)),
};

const root = mkdtempSync(join(tmpdir(), "sluice-models-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

function put(...path: string[]): string {
  const file = join(root, ...path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, "{}");
  return file;
}

function paths(clock: VirtualClock, map: readonly (readonly [string, string])[] = [], fileName = "tokenizer.json") {
  return new ModelPaths({ modelTokenizerMap: new Map(map), directories: [root], fileName }, clock, FILES);
}

describe("the files of tokenizers", () => {
  it("are found by the path of their folder, or by the name of a cache of Hugging Face, through links of files", async () => {
    const plain = put("org", "model", "tokenizer.json");
    const blob = put("blobs", "a1b2");
    const cached = join(root, "hub", "models--Qwen--Qwen3-0.6B", "snapshots", "abc", "tokenizer.json");
    mkdirSync(dirname(cached), { recursive: true });
    symlinkSync(blob, cached);
    const found = paths(new VirtualClock());
    expect(await found.of("org/model")).toBe(plain);
    expect(await found.of("Qwen/Qwen3-0.6B")).toBe(cached);
    expect(await found.of("another")).toBeUndefined();
    expect(modelOf("models--gpt2/snapshots/x")).toBe("gpt2");
  });

  it("are those of the map first, which names files or folders", async () => {
    const file = put("mapped", "tokenizer.json");
    const found = paths(new VirtualClock(), [
      ["a", file],
      ["b", dirname(file)],
      ["org/model", file],
    ]);
    expect([await found.of("a"), await found.of("b"), await found.of("org/model")]).toEqual([file, file, file]);
  });

  it("are searched again after half a minute", async () => {
    const clock = new VirtualClock();
    const found = paths(clock);
    expect(await found.of("late")).toBeUndefined();
    const file = put("late", "tokenizer.json");
    clock.advance(29_999);
    expect(await found.of("late")).toBeUndefined();
    clock.advance(1);
    expect(await found.of("late")).toBe(file);
  });

  it("have another name where the configuration says so; a folder that is not there holds none", async () => {
    const file = put("other", "other.json");
    expect(await paths(new VirtualClock(), [], "other.json").of("other")).toBe(file);
    const none = new ModelPaths(
      { modelTokenizerMap: new Map(), directories: [join(root, "nowhere")], fileName: "x" },
      new VirtualClock(),
    );
    expect(await none.of("m")).toBeUndefined();
  });

  it("are waited for only as long as the request may wait, where a volume hangs; what is known is known at once", async () => {
    hangs = true;
    try {
      const found = paths(new VirtualClock(), [["mapped", root]]);
      for (const model of ["mapped", "org/model"]) {
        const abort = new AbortController();
        const waits = [found.of(model, abort.signal), found.of(model, abort.signal)];
        abort.abort(new Error("too late"));
        for (const wait of waits) await expect(wait).rejects.toThrow("too late");
        await expect(found.of(model, abort.signal)).rejects.toThrow("too late");
        expect(found.known(model)).toBeUndefined();
      }
      // One call for each hung path, however many requests ask.
      expect(hung).toBe(2);
    } finally {
      hangs = false;
    }
  });

  it("stay in use while the folders are searched again", async () => {
    const clock = new VirtualClock();
    const file = put("kept", "tokenizer.json");
    const found = paths(clock);
    expect(await found.of("kept")).toBe(file);
    clock.advance(30_000);
    hangs = true;
    try {
      const abort = new AbortController();
      const waits = found.of("nobody's", abort.signal);
      expect([found.known("kept"), await found.of("kept")]).toEqual([file, file]);
      abort.abort(new Error("too late"));
      await expect(waits).rejects.toThrow("too late");
    } finally {
      hangs = false;
    }
  });

  it("of the map are looked up once, but again after half a minute when they were not there", async () => {
    const clock = new VirtualClock();
    const folder = join(root, "mounted-late");
    const found = paths(clock, [["m", folder]]);
    expect([await found.of("m"), found.known("m")]).toEqual([folder, undefined]);
    const file = put("mounted-late", "tokenizer.json");
    expect(await found.of("m")).toBe(folder);
    clock.advance(30_000);
    expect([await found.of("m"), found.known("m")]).toEqual([file, file]);
    rmSync(folder, { recursive: true });
    clock.advance(60_000);
    expect(await found.of("m")).toBe(file);
  });
});
