import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FolderObjects, isMissing, RelayedObjects } from "./file-objects.ts";

let folder: string;
let file: string;
let objects: FolderObjects;

beforeEach(() => {
  const path = mkdtempSync(join(tmpdir(), "sluice-objects-"));
  folder = join(path, "shared");
  file = join(path, "in");
  writeFileSync(file, "content");
  objects = new FolderObjects(folder);
});
afterEach(() => rmSync(join(folder, ".."), { recursive: true }));

describe("objects in a folder", () => {
  it("are whole files, which can be read and removed", async () => {
    await objects.check();
    await objects.put("a", file);
    expect(readdirSync(folder)).toEqual(["a"]);
    const { content, bytes } = await objects.get("a");
    expect([bytes, await text(content)]).toEqual([7, "content"]);
    await objects.remove("a");
    await objects.remove("a");
    const error = await objects.get("a").catch((cause: unknown) => cause);
    expect(error).toMatchObject({ code: "BATCH_BUCKET" });
    expect(isMissing(error)).toBe(true);
  });
});

describe("relayed objects", () => {
  it("are uploaded by whoever was named last, and read here", async () => {
    await objects.check();
    const relayed = new RelayedObjects(objects);
    const taken: string[] = [];
    relayed.uploadBy(async (id, path) => void taken.push(id, path));
    await relayed.put("a", file);
    expect([taken, readdirSync(folder)]).toEqual([["a", file], []]);
    relayed.uploadBy(undefined);
    await relayed.put("b", file);
    expect([taken.length, await text((await relayed.get("b")).content)]).toEqual([2, "content"]);
    await relayed.remove("b");
    expect(readdirSync(folder)).toEqual([]);
  });
});
