import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { redisServer } from "../../scripts/test-parts.ts";
import { freePort, onFreePorts } from "./free-port.ts";
import { TestProcess } from "./process.ts";

export interface RedisOptions {
  /** Path of the server's program; default: Redis. */
  readonly program?: string;
  /** Every write is on the disk before its answer: what a SIGKILL leaves is what was answered. */
  readonly appendOnly?: boolean;
  readonly password?: string;
  /** PEM texts; only TLS is listened to then. `ca` = clients must show a certificate that it has signed. */
  readonly tls?: { readonly cert: string; readonly key: string; readonly ca?: string };
  /** Further options of the command line. */
  readonly args?: readonly string[];
}

/** A Redis server of a test's own, in a folder of its own. */
export interface RunningRedis {
  readonly port: number;
  /** With the password, where there is one. */
  readonly url: string;
  /** Of the server that runs now. */
  process(): TestProcess;
  /** Ends it with SIGKILL. */
  kill(): Promise<void>;
  /** Starts it again on the same port and folder, after `kill`. */
  restart(): Promise<void>;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

/** Starts a server on a free port of the loopback interface and waits until it answers. */
export function startRedis(options: RedisOptions = {}): Promise<RunningRedis> {
  return onFreePorts(() => startOnce(options));
}

async function startOnce(options: RedisOptions): Promise<RunningRedis> {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "sluice-redis-"));
  const args = ["--bind", "127.0.0.1", "--dir", folder, "--save", "", ...listenArgs(options, port, folder)];
  if (options.appendOnly) args.push("--appendonly", "yes", "--appendfsync", "always");
  if (options.password !== undefined) args.push("--requirepass", options.password);
  args.push(...(options.args ?? []));
  const { program } = options;
  let server = await start(args, program);
  const user = options.password === undefined ? "" : `:${encodeURIComponent(options.password)}@`;
  return {
    port,
    url: `${options.tls === undefined ? "redis" : "rediss"}://${user}127.0.0.1:${port}`,
    process: () => server,
    kill: () => server.stop("SIGKILL"),
    async restart() {
      server = await start(args, program);
    },
    async stop() {
      await server.stop("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function listenArgs({ tls }: RedisOptions, port: number, folder: string): readonly string[] {
  if (tls === undefined) return ["--port", String(port)];
  const file = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  return [
    ...["--port", "0", "--tls-port", String(port)],
    ...["--tls-cert-file", file("cert.pem", tls.cert), "--tls-key-file", file("key.pem", tls.key)],
    ...["--tls-ca-cert-file", file("ca.pem", tls.ca ?? tls.cert)],
    ...["--tls-auth-clients", tls.ca === undefined ? "no" : "yes"],
  ];
}

async function start(args: readonly string[], program = redisServer()): Promise<TestProcess> {
  const server = new TestProcess(program, args, { cwd: tmpdir() });
  await server.until("Redis to be ready", () => server.stdout.includes("Ready to accept connections"));
  return server;
}
