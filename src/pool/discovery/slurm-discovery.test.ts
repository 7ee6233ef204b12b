import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { poll } from "../../../test/support/poll.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { type LogFields, type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { EndpointRegistry } from "../endpoints/registry.ts";
import { SlurmDiscovery } from "./slurm-discovery.ts";
import { slurmSettings } from "./slurm-settings.ts";

const running: SlurmDiscovery[] = [];
afterEach(() => {
  for (const discovery of running.splice(0)) discovery.close();
});

function setUp(given: object, env: Readonly<Record<string, string>> = {}, maxEndpoints = 4096) {
  const registry = new EndpointRegistry({ clock: realClock, random: new SeededRandom(1), maxEndpoints });
  const lines: (LogFields & { readonly message: string })[] = [];
  const line = (fields: LogFields, message: string): void => void lines.push({ ...fields, message });
  const log: Logger = { ...silentLogger, info: line, warn: line, error: line };
  const settings = slurmSettings.parse(given);
  const discovery = new SlurmDiscovery({ settings, env, pool: registry, clock: realClock, log });
  running.push(discovery);
  return { discovery, lines, found: () => registry.list().map(({ name }) => name), registry };
}

describe("the endpoints of a host list", () => {
  it("are its hosts at a port, with labels and models", async () => {
    const { discovery, found, registry } = setUp({
      hosts: "gpu[1-2]",
      port: 8000,
      labels: { rack: "7" },
      models: ["*"],
    });
    await discovery.start();
    expect(found()).toEqual(["gpu1:8000", "gpu2:8000"]);
    expect(registry.list()[0]).toMatchObject({
      ...{ address: "gpu1", port: 8000, labels: { rack: "7" }, models: { source: "file", byName: "any" } },
    });
  });

  it.each([
    [{ port: 8000, servers: 3 }, [8000, 8001, 8002]],
    [{ port: 8000, servers: 2, stride: 10 }, [8000, 8010]],
    [{ ports: [9000, 8000] }, [9000, 8000]],
  ])("are several for each host: %j", async (given, ports) => {
    const { discovery, found } = setUp({ hosts: "a", ...given });
    await discovery.start();
    expect(found()).toEqual(ports.map((port) => `a:${port}`));
  });

  it("come from an environment variable", async () => {
    const env = { SLURM_JOB_NODELIST: "gpu[01-02]" };
    const { discovery, found } = setUp({ env: "SLURM_JOB_NODELIST", port: 1 }, env);
    await discovery.start();
    expect(found()).toEqual(["gpu01:1", "gpu02:1"]);
  });

  it.each([
    [{}, "the environment variable NODES, character 1: the host list is empty"],
    [{ NODES: "gpu[1" }, "the environment variable NODES, character 4: `[` has no `]` behind it"],
  ])("are an error where the variable is wrong: %j", async (env, message) => {
    await expect(setUp({ env: "NODES", port: 1 }, env).discovery.start()).rejects.toMatchObject({
      ...{ code: "DOCUMENT_INVALID", message },
    });
  });

  it("follow a file, and stay as they are while it is wrong", async () => {
    const file = join(mkdtempSync(join(tmpdir(), "sluice-slurm-")), "nodes.txt");
    const write = (text: string): void => {
      writeFileSync(`${file}.new`, text);
      renameSync(`${file}.new`, file);
    };
    write("# the job of today\ngpu[1-2] # fast\nlogin1\n");
    const { discovery, found, lines } = setUp({ file, port: 1 });
    await discovery.start();
    expect(found()).toEqual(["gpu1:1", "gpu2:1", "login1:1"]);
    write("gpu[1-3]\n");
    await poll("three hosts", () => found().join() === "gpu1:1,gpu2:1,gpu3:1");
    write("# a\ngpu1, gpu[1-\n");
    await poll("the error", () => lines.some(({ problem }) => String(problem).startsWith(`${file}:2:11: "1-"`)));
    rmSync(file);
    await poll("the second error", () => lines.some(({ problem }) => String(problem).includes("does not exist")));
    expect(found()).toEqual(["gpu1:1", "gpu2:1", "gpu3:1"]);
    write("gpu9\n");
    await poll("the host", () => found().join() === "gpu9:1");
  });

  it("has a bound, and says how many are left out", async () => {
    const { discovery, found, lines } = setUp({ hosts: "gpu[1-5]", port: 1 }, {}, 3);
    await discovery.start();
    expect([found().length, lines.at(-1)]).toMatchObject([3, { refused: 2, maxEndpoints: 3 }]);
  });
});

describe("the section slurm", () => {
  it.each([
    [{ port: 1 }, [], "give exactly one of `hosts`, `env` and `file`"],
    [{ hosts: "a", env: "A", port: 1 }, ["env"], "give exactly one of `hosts`, `env` and `file`, not 2"],
    [{ hosts: "a" }, [], "give exactly one of `port` and `ports`"],
    [{ hosts: "a[", port: 1 }, ["hosts"], '"" is not a number or a range such as 01-16 (character 3)'],
    [{ hosts: "a", ports: [1], stride: 2 }, ["stride"], "goes only with `port`; `ports` names every port"],
    [{ hosts: "a", port: 1, stride: 2 }, ["stride"], "needs `servers`, the number of ports"],
    [{ hosts: "a", port: 65535, servers: 2 }, ["servers"], "the last port would be 65536, above 65535"],
    [{ hosts: "a", ports: [1, 1] }, ["ports"], "names a port twice"],
    [{ env: "1A", port: 1 }, ["env"], "must be the name of an environment variable"],
    [{ hosts: "a", port: 1, models: ["a", "*"] }, ["models", 1], '"*" means every name'],
    [{ hosts: "a", port: 1, models: [] }, ["models"], "must be a list of one or more model names"],
  ])("%j is refused", (given, path, message) => {
    const issues = slurmSettings.safeParse(given).error?.issues;
    expect(issues).toContainEqual(expect.objectContaining({ path, message: expect.stringContaining(message) }));
  });
});
