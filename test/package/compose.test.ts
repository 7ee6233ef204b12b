import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { parse, parseDocument } from "yaml";
import { ask, JSON_HEADERS } from "../support/client.ts";
import { newKeys } from "../support/keys.ts";
import { compiledBefore, PROGRAM, ROOT, TestProcess } from "../support/process.ts";

const DEPLOY = join(ROOT, "deploy");

interface Container {
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly profiles?: readonly string[];
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly depends_on?: Readonly<Record<string, unknown>>;
  readonly stop_grace_period?: string;
}

const file = readFileSync(join(DEPLOY, "compose.yaml"), "utf8");
const { services, volumes } = parseDocument(file, { merge: true }).toJS() as {
  services: Readonly<Record<string, Container>>;
  volumes: Readonly<Record<string, unknown>>;
};
const of = (...names: readonly string[]): Container[] => names.map((name) => services[name]!);

const left: TestProcess[] = [];
afterEach(async () => {
  await Promise.all(left.splice(0).map((each) => each.stop()));
});

/** Starts a container's command line with folders of this machine for its volumes. @param mine folder of each mount */
function start(container: Container, mine: Readonly<Record<string, string>>, ...more: readonly string[]): TestProcess {
  const words = [...container.entrypoint, ...container.command].map((word) => {
    const [, mount] = /=(\/[a-z]+)\//.exec(word) ?? [];
    if (mount === undefined) return word;
    expect(container.volumes!.map((volume) => volume.split(":")[1])).toContain(mount);
    return word.replace(`=${mount}/`, `=${mine[mount]}/`);
  });
  expect(words.shift()).toBe("sluice");
  // Of two values of a flag the last counts: the ports of the file may be taken here.
  const started = new TestProcess(process.execPath, [PROGRAM, ...words, ...more], {
    cwd: "/",
    env: { PATH: process.env["PATH"], ...compiledBefore(), ...container.environment },
  });
  left.push(started);
  return started;
}

/** The port on which a health check of a container asks, and the path. */
function healthOf({ healthcheck }: Container): readonly string[] {
  return /http:\/\/127\.0\.0\.1:(\d+)(\/\w+)/.exec(healthcheck!.test.join(" "))!.slice(1);
}

describe("deploy/compose.yaml", () => {
  it("starts two servers and a gateway; queues and tools come when they are asked for", () => {
    const byProfile = Object.entries(services).map(([name, { profiles = [] }]) => [name, ...profiles].join(" "));
    expect(byProfile.sort()).toEqual(
      ["gateway", "server-0", "server-1", "keys tools", "dispatch queue", "redis queue"].sort(),
    );
    for (const { depends_on = {} } of Object.values(services))
      for (const name of Object.keys(depends_on)) expect(services[name]!.healthcheck, name).toBeDefined();
  });

  it("gives no container more than it needs, and opens ports of this machine alone", () => {
    for (const container of of("gateway", "server-0", "server-1", "keys", "dispatch")) {
      expect(container).toMatchObject({ read_only: true, cap_drop: ["ALL"], security_opt: ["no-new-privileges:true"] });
      expect(container.entrypoint[0]).toBe("sluice");
    }
    for (const { ports = [] } of Object.values(services))
      for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/);
    const named = Object.values(services).flatMap(({ volumes: mounts = [] }) =>
      mounts.map((each) => each.split(":")[0]!),
    );
    for (const name of named) expect([...Object.keys(volumes), "./compose"]).toContain(name);
  });

  it("lists servers that are services, on the port where they listen", () => {
    const { endpoints } = parse(readFileSync(join(DEPLOY, "compose", "endpoints.yaml"), "utf8")) as {
      endpoints: { address: string; port: number }[];
    };
    expect(endpoints.length).toBe(2);
    for (const { address, port } of endpoints) expect(services[address]!.command).toContain(`--port=${port}`);
  });

  it("has command lines that start: servers, a gateway that asks for keys, a dispatcher", async () => {
    const [server, gateway, dispatch] = of("server-0", "gateway", "dispatch") as [Container, Container, Container];
    const address = await start(server, {}, "--host=127.0.0.1", "--port=0").listening("sim");
    const made = await newKeys("me");
    const mine = { "/config": join(DEPLOY, "compose"), "/keys": join(made.file, "..") };
    const running = start(gateway, mine, "--listen=127.0.0.1:0", "--admin=127.0.0.1:0");
    const admin = `http://${await running.listening("admin")}`;
    const [adminPort, path] = healthOf(gateway);
    expect(gateway.command).toContain(`--admin=0.0.0.0:${adminPort}`);
    await running.until("its health", async () => (await ask(`${admin}${path}`)).status === 200);
    const url = `http://${await running.listening("gateway")}/v1/models`;
    expect((await ask(url)).status).toBe(401);
    expect((await ask(url, { headers: { authorization: `Bearer ${made.key}` } })).status).not.toBe(401);
    // The simulator is a model server for the model that the documentation asks for.
    const body = JSON.stringify({ model: "sim", prompt: "hello", max_tokens: 2 });
    expect((await ask(`http://${address}/v1/completions`, { headers: JSON_HEADERS, body })).status).toBe(200);

    const environment = { ...dispatch.environment, REDIS_URL: "redis://127.0.0.1:9/0", SLUICE_GATEWAY_KEY: made.key };
    const [, ready] = healthOf(dispatch);
    const local = ["--bind-address=127.0.0.1", "--health-port=0", "--metrics-port=0"];
    const queued = start({ ...dispatch, environment }, mine, ...local);
    const health = `http://${await queued.listening("health")}`;
    await queued.until("an answer of its health", async () => (await ask(`${health}${ready}`)).status === 503);
    expect(queued.stdout + queued.stderr).not.toContain(made.key);
  });

  it("has the command for keys that its first lines name", async () => {
    const [, words] = /run --rm keys (add .*?)\s+#/.exec(file) ?? [];
    const folder = mkdtempSync(join(tmpdir(), "sluice-compose-"));
    const add = start({ ...services["keys"]!, command: words!.replace("/keys/", `${folder}/`).split(" ") }, {});
    expect((await add.ended(60_000)).code, add.stderr).toBe(0);
    expect(add.stdout.trim()).toMatch(/^\S{20,}$/);
    expect(readdirSync(folder)).toContain("keys.yaml");
    const list = start({ ...services["keys"]! }, { "/keys": folder });
    expect((await list.ended(60_000)).code, list.stderr).toBe(0);
    expect(list.stdout).toContain("me");
    expect(list.stdout).not.toContain(add.stdout.trim());
  });
});
