import { Pool } from "undici";
import type { Clock } from "../../base/clock/clock.ts";
import { realClock } from "../../base/clock/real.ts";
import { readyLine } from "../../base/process/lifecycle.ts";
import { Screen } from "../../base/process/screen.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { type Gateway, type Surroundings, startGateway } from "../../wires/gateway/gateway.ts";
import type { GatewayOptions } from "../../wires/gateway/gateway-options.ts";
import { Cluster, type ModelServer } from "./cluster.ts";
import { freePort } from "./part-process.ts";
import { ANSWER_LIMIT_MS } from "./traffic.ts";

interface EnvironmentOptions {
  readonly servers: number;
  readonly modelServer: ModelServer;
  /** Progress on stderr, one line of figures on stdout. */
  readonly json: boolean;
  readonly seed: number;
  /** Program and arguments that run `sluice` in a child process. */
  readonly program: readonly string[];
}

/** The settings of the gateway that a demo may change. */
type GatewaySettings = Pick<GatewayOptions, "configText"> & Pick<Surroundings, "demo">;

const GATEWAY_PORT = 8080;
const ADMIN_PORT = 19001;

/** The running parts, ready for traffic. */
export interface RunningDemo {
  readonly gateway: Gateway;
  readonly gatewayUrl: string;
  readonly adminUrl: string;
  readonly client: Pool;
}

/** The parts of every demo: simulated model servers, the gateway, a client, a screen and the keys. */
export class DemoEnvironment {
  readonly clock: Clock = realClock;
  readonly screen: Screen;
  readonly cluster: Cluster;
  readonly #options: EnvironmentOptions;
  readonly #stop = new AbortController();
  #gateway: Gateway | undefined;
  #client: Pool | undefined;
  /** Called from last to first. Servers end before the gateway, so no later close waits for an answer of a server. */
  readonly #closes: (() => Promise<void> | void)[] = [
    () => this.#gateway?.close(),
    () => this.#client?.destroy(),
    () => this.cluster.stop(),
  ];

  constructor(options: EnvironmentOptions) {
    const progress = options.json ? process.stderr : process.stdout;
    this.#options = options;
    this.screen = new Screen({ write: (text) => progress.write(text), isTerminal: progress.isTTY === true });
    this.cluster = new Cluster({ ...options, clock: this.clock, say: (line) => this.tell(line) });
  }

  /** Aborted when the demo must end early. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  end(): void {
    this.#stop.abort();
  }

  /** Reports a change of a part. After an abort it reports nothing: Ctrl-C reaches the parts, too. */
  tell(line: string): void {
    if (!this.signal.aborted) this.screen.say(line);
  }

  /** Starts servers and gateway, and prints their addresses. */
  async start(settings: GatewaySettings = {}): Promise<RunningDemo> {
    const say = (line: string): void => this.screen.say(line);
    say(`starting ${this.#options.servers} simulated model servers`);
    const endpointsFile = await this.cluster.start();
    say("starting the gateway");
    this.#gateway = await startGateway({
      ...settings,
      endpoints: { kind: "file", path: endpointsFile },
      listeners: [{ host: "127.0.0.1", port: await freePort("127.0.0.1", GATEWAY_PORT) }],
      admin: { host: "127.0.0.1", port: await freePort("127.0.0.1", ADMIN_PORT) },
      maxRetries: 2,
      retryStatuses: [503],
      objectives: [],
      debugOpen: false,
      log: silentLogger,
    });
    const gateway = this.#gateway;
    for (const listening of gateway.listening) say(readyLine(listening, process.pid));
    const gatewayUrl = `http://${gateway.listening[0]!.address}`;
    const adminUrl = `http://${gateway.listening[1]!.address}`;
    const client = new Pool(gatewayUrl, {
      connections: 512,
      pipelining: 1,
      headersTimeout: ANSWER_LIMIT_MS,
      bodyTimeout: ANSWER_LIMIT_MS,
    });
    // After an abort the demo does not wait for answers.
    this.signal.addEventListener("abort", () => void client.destroy());
    this.#client = client;
    say(`look:   ${adminUrl}/`);
    say(`try:    curl ${gatewayUrl}/v1/models`);
    return { gateway, gatewayUrl, adminUrl, client };
  }

  /** Handles keys if there is a keyboard; `q` and Ctrl-C end the demo. @param help describes the keys */
  listenToKeys(help: string, pressed: (key: string) => void): void {
    const giveBack = onKey((key) => {
      if (key === "q" || key === "\u0003") this.end();
      else pressed(key);
    });
    if (giveBack === undefined) return;
    this.screen.say(`keys:   ${help}, q ends`);
    this.beforeEnd(giveBack);
  }

  /** @param close called at the end of the demo, before the functions that were given earlier */
  beforeEnd(close: () => Promise<void> | void): void {
    this.#closes.push(close);
  }

  async close(): Promise<void> {
    for (const close of this.#closes.splice(0).reverse()) await close();
  }
}

/**
 * Plays a demo. Ends all parts after it, or on a signal.
 * @param play resolves to the exit status
 */
export async function inEnvironment(
  options: EnvironmentOptions,
  play: (stage: DemoEnvironment) => Promise<number>,
): Promise<number> {
  const stage = new DemoEnvironment(options);
  const onSignal = (): void => stage.end();
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  try {
    return await play(stage);
  } finally {
    await stage.close();
    process.off("SIGINT", onSignal);
    process.off("SIGTERM", onSignal);
  }
}

/**
 * Calls back for every pressed key, if there is a terminal.
 * @returns a function that restores the terminal; undefined without a terminal
 */
function onKey(callback: (key: string) => void): (() => void) | undefined {
  const input = process.stdin;
  if (!input.isTTY) return undefined;
  const onData = (data: Buffer): void => {
    for (const key of data.toString()) callback(key);
  };
  input.setRawMode(true).resume().on("data", onData);
  return () => {
    input.off("data", onData).setRawMode(false).pause();
  };
}
