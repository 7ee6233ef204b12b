import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { pluginContextOf } from "../../../test/support/plugin-context.ts";
import { poll } from "../../../test/support/poll.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import {
  endpointsDiscoveryParameters,
  FileDiscovery,
  type FileDiscoveryOptions,
  fileDiscovery,
  multiclusterFileDiscovery,
} from "./file-discovery.ts";
import { EndpointRegistry } from "./registry.ts";

let directory = "";
let path = "";
const open: FileDiscovery[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sluice-endpoints-"));
  path = join(directory, "endpoints.yaml");
});

afterEach(async () => {
  for (const discovery of open.splice(0)) discovery.close();
  await rm(directory, { recursive: true, force: true });
});

function setUp(options: Partial<FileDiscoveryOptions> = {}) {
  const registry = new EndpointRegistry({ clock: realClock, random: new SeededRandom(1), maxEndpoints: 5 });
  const warnings: string[] = [];
  const infos: string[] = [];
  const log = { warn: (text: string) => void warnings.push(text), info: (text: string) => void infos.push(text) };
  const base = { path, flavour: "strict", watchFile: true, registry, clock: realClock, log } as const;
  const discovery = new FileDiscovery({ ...base, ...options });
  open.push(discovery);
  const names = (): string =>
    registry
      .list()
      .map((endpoint) => endpoint.name)
      .join(" ");
  return { registry, discovery, warnings, infos, names };
}

function file(...names: string[]): string {
  const entries = names.map((name) => `- {name: ${name}, address: 10.0.0.${name.charCodeAt(0)}, port: 80}\n`);
  return `endpoints:\n${entries.join("")}`;
}

describe("FileDiscovery at start", () => {
  it("has applied the endpoints when start resolves, none included", async () => {
    await writeFile(path, file("a", "b"));
    const { discovery, names, infos } = setUp({ watchFile: false });
    await discovery.start();
    expect(names()).toBe("a b");
    expect(infos).toEqual([`endpoints file: ${path}: 2 endpoints, 2 added, 0 removed`]);
    await writeFile(path, "endpoints: []");
    await expect(setUp({ watchFile: false }).discovery.start()).resolves.toBeUndefined();
  });

  it("aborts on a missing, too large, unparsable or partly bad file, and applies nothing (R-54)", async () => {
    const cases: [string | Uint8Array | undefined, RegExp][] = [
      [undefined, /endpoints\.yaml/],
      [Buffer.alloc(1024 * 1024 + 1, 0x20), /1048576/],
      [Buffer.from([0x65, 0xff, 0xfe]), /UTF-8/],
      ["endpoints: [", /endpoints\.yaml:\d+:\d+: /],
      [
        `${file("a")}- {name: b}\n- 3\n`,
        /^2 entries of the endpoints file are wrong:\n {2}\S+endpoints\.yaml:\d+:\d+: endpoints\[1\]: .*`address` is missing.*\n {2}\S+: endpoints\[2\]: .+$/,
      ],
      [`endpoints:\n${"- 3\n".repeat(22)}`, /endpoints\[19\].*\n {2}\(and 2 more\)$/],
    ];
    for (const [content, message] of cases) {
      if (content !== undefined) await writeFile(path, content);
      const { discovery, names } = setUp();
      await expect(discovery.start()).rejects.toThrow(message);
      expect(names()).toBe("");
    }
  });

  it("takes a file of exactly 1 MiB (R-53)", async () => {
    await writeFile(path, file("a").padEnd(1024 * 1024, " "));
    const { discovery, names } = setUp({ watchFile: false });
    await discovery.start();
    expect(names()).toBe("a");
  });

  it("tells how many endpoints are over the bound of the registry", async () => {
    await writeFile(path, file("a", "b", "c", "d", "e", "f"));
    const { discovery, names, warnings } = setUp({ watchFile: false });
    await discovery.start();
    expect(names()).toBe("a b c d e");
    expect(warnings).toEqual(["endpoints file: 1 endpoints refused: more than 5"]);
  });
});

describe("FileDiscovery on repeated entries", () => {
  it("warns at start and on reload, and the last entry counts", async () => {
    await writeFile(path, `${file("a", "b")}- {name: a, address: 10.0.0.1, port: 81}\n`);
    const { discovery, names, registry, warnings } = setUp();
    await discovery.start();
    expect(names()).toBe("a b");
    expect(registry.get("default/a")?.port).toBe(81);
    expect(warnings).toEqual([
      `endpoints file: ${path}:2:3: endpoint default/a is listed again at line 4; Sluice uses the last entry`,
    ]);
    await writeFile(path, `${file("a")}- {name: c, address: 10.0.0.97, port: 80}\n`);
    await poll("reload", () => names() === "a c");
    expect(warnings.slice(1)).toEqual([
      `endpoints file: ${path}:2:3: endpoints default/a and default/c (line 3) have the same address 10.0.0.97:80: this server gets the traffic of both`,
    ]);
  });

  it("tells at most twenty repetitions one by one", async () => {
    await writeFile(path, file(...Array.from({ length: 51 }, () => "a")));
    const { discovery, warnings } = setUp({ watchFile: false });
    await discovery.start();
    expect(warnings).toHaveLength(21);
    expect(warnings.at(-1)).toBe("endpoints file: 30 further warnings about this file");
  });
});

describe("FileDiscovery while it watches (R-55)", () => {
  it("follows a write in place and a file renamed over it, keeping the endpoints that stay", async () => {
    await writeFile(path, file("a", "b"));
    const { discovery, names, registry } = setUp();
    await discovery.start();
    const a = registry.get("default/a");
    await writeFile(path, file("a", "c"));
    await poll("write", () => names() === "a c");
    for (const next of ["d", "e"]) {
      await writeFile(join(directory, "new"), file("a", next));
      await rename(join(directory, "new"), path);
      await poll("rename", () => names() === `a ${next}`);
    }
    expect(registry.get("default/a")).toBe(a);
  });

  it("follows the symlink swap of a mounted ConfigMap", async () => {
    const version = async (name: string, content: string): Promise<void> => {
      await mkdir(join(directory, name));
      await writeFile(join(directory, name, "endpoints.yaml"), content);
      await symlink(name, join(directory, "..data_tmp"));
      await rename(join(directory, "..data_tmp"), join(directory, "..data"));
    };
    await version("..1", file("a"));
    await symlink(join("..data", "endpoints.yaml"), path);
    const { discovery, names } = setUp();
    await discovery.start();
    expect(names()).toBe("a");
    for (const [at, name] of ["b", "c"].entries()) {
      await version(`..${at + 2}`, file(name));
      await rm(join(directory, `..${at + 1}`), { recursive: true });
      await poll("swap", () => names() === name);
    }
  });

  it("keeps the endpoints over a removed, unparsable or too large file and recovers", async () => {
    await writeFile(path, file("a"));
    const { discovery, names, warnings } = setUp();
    await discovery.start();
    const broken = [
      () => rm(path),
      () => writeFile(path, "endpoints: ["),
      () => writeFile(path, ""),
      () => writeFile(path, Buffer.alloc(1024 * 1024 + 1, 0x20)),
    ];
    for (const [at, breakIt] of broken.entries()) {
      await breakIt();
      await poll("warning", () => warnings.length > at);
      expect(warnings.at(-1)).toMatch(/Sluice keeps the previous endpoints: .*endpoints\.yaml/);
      expect(names()).toBe("a");
    }
    await writeFile(path, file("b"));
    await poll("recovery", () => names() === "b");
  });

  it("applies the good part of a partly bad file: breaking an entry removes it", async () => {
    await writeFile(path, file("a", "b"));
    const { discovery, names, warnings } = setUp();
    await discovery.start();
    await writeFile(path, `${file("a", "c")}- {name: b, address: nowhere, port: 80}\n`);
    await poll("reload", () => names() === "a c");
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(/entry skipped: .*endpoints\.yaml:\d+:\d+: endpoints\[2\]\.address/);
  });

  it("tells at most twenty bad entries one by one", async () => {
    await writeFile(path, file("a"));
    const { discovery, names, warnings } = setUp();
    await discovery.start();
    await writeFile(path, `${file("b")}${"- 1\n".repeat(50)}`);
    await poll("reload", () => names() === "b");
    expect(warnings).toHaveLength(21);
    expect(warnings.at(-1)).toBe("endpoints file: 30 more entries skipped");
  });

  it("looks at the file from time to time where no event comes", async () => {
    const elsewhere = await mkdtemp(join(tmpdir(), "sluice-elsewhere-"));
    try {
      const real = join(elsewhere, "endpoints.yaml");
      await writeFile(real, file("a"));
      await symlink(real, path);
      const clock = new VirtualClock();
      const { discovery, names } = setUp({ clock });
      await discovery.start();
      await writeFile(real, file("b"));
      clock.advance(5000);
      await poll("look", () => names() === "b");
    } finally {
      await rm(elsewhere, { recursive: true });
    }
  });

  it("changes nothing after close, and a file that is not watched stays as it was read", async () => {
    await writeFile(path, file("a"));
    const clock = new VirtualClock();
    const closed = setUp({ clock });
    const unwatched = setUp({ clock, watchFile: false });
    await closed.discovery.start();
    await unwatched.discovery.start();
    expect(clock.pending).toBe(1);
    closed.discovery.close();
    expect(clock.pending).toBe(0);
  });
});

describe("the file-discovery plugin", () => {
  it("wants a path, watches only when asked, knows no other parameter (6A.1)", () => {
    expect(endpointsDiscoveryParameters.parse({ path: "/e.yaml" })).toEqual({ path: "/e.yaml", watchFile: false });
    for (const wrong of [{}, { path: "" }, { watchFile: true }])
      expect(endpointsDiscoveryParameters.safeParse(wrong).error?.issues[0]?.message).toBe("'path' is required");
    expect(endpointsDiscoveryParameters.safeParse({ path: "/e", paths: "/e" }).success).toBe(false);
    expect(fileDiscovery).toMatchObject({ kind: "discovery", type: "file-discovery" });
    const context = pluginContextOf("f");
    expect(fileDiscovery.create({ path: "/e", watchFile: true }, context)).toEqual({ path: "/e", watchFile: true });
    expect(multiclusterFileDiscovery.parameters).toBe(fileDiscovery.parameters);
  });
});
