import { mkdir, mkdtemp, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MAX_FILES, MAX_MANIFEST_BYTES, ManifestFolder } from "./manifests.ts";

let folder = "";

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-manifests-"));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const write = (name: string, text: string) => writeFile(join(folder, name), text);
const model = (name: string, modelName = "chat", namespace = "") => `apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceModel
metadata: {name: ${name}${namespace && `, namespace: ${namespace}`}}
spec: {modelName: ${modelName}, poolRef: {name: pool}}
`;
const names = (content: Awaited<ReturnType<ManifestFolder["read"]>>) =>
  content.objects.map(({ meta }) => `${meta.namespace}/${meta.name}`);

/** Code and message of the error. */
async function failure(run: Promise<unknown>): Promise<string> {
  return run.then(
    () => "none",
    (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
  );
}

describe("ManifestFolder", () => {
  it("reads the .yaml, .yml and .json in it, several documents each, and nothing else", async () => {
    await write("b.yaml", `${model("b")}---\n${model("c")}`);
    await write("a.YML", model("a"));
    await write("d.json", JSON.stringify({ apiVersion: "v1", kind: "List", items: [] }));
    await write(".hidden.yaml", "[");
    await write("notes.txt", "[");
    await write("b.yaml~", "[");
    await mkdir(join(folder, "deeper.yaml"));
    await writeFile(join(folder, "deeper.yaml", "e.yaml"), model("e"));
    const content = await new ManifestFolder(folder).read();
    expect(names(content)).toEqual(["default/a", "default/b", "default/c"]);
    expect(content).toMatchObject({ files: 3, warnings: [], problems: [] });
    expect(names(await new ManifestFolder(folder, "team").read())[0]).toBe("team/a");
  });

  it("names file, line and column of what it cannot use, and of what is hardly meant", async () => {
    await write("a.yaml", "kind: [\n");
    await write("b.yaml", `${model("ok")}---\n${model("b").replace("modelName", "modelNam")}`);
    const content = await new ManifestFolder(folder).read();
    expect(content.problems).toHaveLength(2);
    expect(content.problems[0]).toMatch(/a\.yaml:1:7: /);
    expect(content.problems[1]).toMatch(/b\.yaml:9:8: spec\.modelNam: unknown key/);
    expect(content.objects).toEqual([]);
  });

  it("reads a file again only when it changed, and keeps what a broken one last said (keeps the last good set)", async () => {
    const manifests = new ManifestFolder(folder);
    await write("a.yaml", model("a"));
    await write("b.yaml", model("b"));
    await manifests.read();
    await write("a.yaml", `${model("a")}--- [`);
    await write("b.yaml", model("bb"));
    const broken = await manifests.read();
    expect([names(broken), broken.problems.length]).toEqual([["default/a", "default/bb"], 1]);
    const again = await manifests.read();
    expect([names(again), again.problems]).toEqual([["default/a", "default/bb"], []]);
    await write("a.yaml", model("aa"));
    expect(names(await manifests.read())).toEqual(["default/aa", "default/bb"]);
    await rm(join(folder, "a.yaml"));
    expect(names(await manifests.read())).toEqual(["default/bb"]);
  });

  it("refuses one object in two files, naming both, and twice in one", async () => {
    await write("a.yaml", model("m"));
    await write("b.yaml", model("m", "code"));
    const manifests = new ManifestFolder(folder);
    const [a, b] = [join(folder, "a.yaml"), join(folder, "b.yaml")];
    expect(await failure(manifests.read())).toBe(
      `RESOURCE_TWICE: InferenceModel default/m is in ${a} and in ${b}; keep one`,
    );
    await write("b.yaml", model("m", "code", "elsewhere"));
    expect(names(await manifests.read())).toEqual(["default/m", "elsewhere/m"]);
    await write("a.yaml", `${model("m")}---\n${model("m")}`);
    expect(await failure(manifests.read())).toBe(`RESOURCE_TWICE: ${a} holds InferenceModel default/m twice; keep one`);
  });

  it("takes pools of both groups for different objects", async () => {
    const pool = (version: string, spec: string) =>
      `apiVersion: ${version}\nkind: InferencePool\nmetadata: {name: p}\nspec: ${spec}\n`;
    await write(
      "a.yaml",
      `${pool("inference.networking.k8s.io/v1", "{selector: {matchLabels: {a: b}}, targetPorts: [{number: 8000}]}")}---\n` +
        pool(
          "inference.networking.x-k8s.io/v1alpha2",
          "{selector: {a: b}, targetPortNumber: 8000, extensionRef: {name: e}}",
        ),
    );
    expect(names(await new ManifestFolder(folder).read())).toEqual(["default/p", "default/p"]);
  });

  it("has another signature whenever a file comes, changes or goes", async () => {
    const manifests = new ManifestFolder(folder);
    const seen = [await manifests.signature()];
    const look = async () => void seen.push(await manifests.signature());
    await write("a.yaml", "a");
    await look();
    await write("a.yaml", "b");
    await look();
    await symlink(join(folder, "nowhere"), join(folder, "b.yaml"));
    await look();
    await rm(join(folder, "a.yaml"));
    await look();
    expect(new Set(seen).size).toBe(seen.length);
    await write("notes.txt", "x");
    expect(await manifests.signature()).toBe(seen.at(-1));
    expect((await manifests.read()).problems).toEqual([`${join(folder, "b.yaml")} does not exist`]);
    await rm(folder, { recursive: true });
    expect(await manifests.signature()).toBe("");
  });

  it("says what is wrong with the folder itself", async () => {
    await write("a.yaml", model("a"));
    const file = join(folder, "a.yaml");
    expect(await failure(new ManifestFolder(join(folder, "none")).read())).toBe(
      `RESOURCES_FOLDER: ${join(folder, "none")} does not exist`,
    );
    expect(await failure(new ManifestFolder(file).read())).toBe(
      `RESOURCES_FOLDER: ${file} is a file; give the folder of the manifests`,
    );
  });

  it("takes 1,000 files and no more", async () => {
    await Promise.all(Array.from({ length: MAX_FILES }, (_, i) => write(`${i}.yaml`, "")));
    const manifests = new ManifestFolder(folder);
    expect((await manifests.read()).files).toBe(1000);
    await write("another.yaml", "");
    expect(await failure(manifests.read())).toBe(`RESOURCE_LIMIT: ${folder} holds 1001 manifests; at most 1000`);
  });

  it("takes files of 1 MiB, 16 MiB of them, and no more", async () => {
    await write("a.yaml", `${model("a")}#`.padEnd(MAX_MANIFEST_BYTES, "x"));
    await write("b.yaml", `${model("b")}#`.padEnd(MAX_MANIFEST_BYTES + 1, "x"));
    const manifests = new ManifestFolder(folder);
    const content = await manifests.read();
    expect([names(content), content.problems]).toEqual([
      ["default/a"],
      [`${join(folder, "b.yaml")} is larger than 1048576 bytes, the limit for this kind of file`],
    ]);
    await truncate(join(folder, "b.yaml"), 15 * MAX_MANIFEST_BYTES);
    await manifests.read();
    await truncate(join(folder, "b.yaml"), 15 * MAX_MANIFEST_BYTES + 1);
    expect(await failure(manifests.read())).toBe(
      `RESOURCE_LIMIT: the manifests in ${folder} have 16777217 bytes together; at most 16777216`,
    );
  });
});
