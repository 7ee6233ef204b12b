import { Pool } from "undici";
import { type Clock, delay } from "../../clock/clock.ts";
import { SeededRandom } from "../../clock/random.ts";
import { realClock } from "../../clock/real.ts";
import { silentLogger } from "../../telemetry/logger.ts";
import { freePort } from "../free-port.ts";
import { type Gateway, startGateway } from "../gateway.ts";
import { readyLine } from "../ready-line.ts";
import { Cluster } from "./cluster.ts";
import { Half, type HalfSummary } from "./half.ts";
import { onKey } from "./keys.ts";
import { comparison, livePicture, oneLine } from "./picture.ts";
import { ROUND_ROBIN } from "./round-robin.ts";
import { Screen } from "./screen.ts";
import { runTraffic } from "./traffic.ts";
import { demoWorkload, type WorkloadRequest } from "./workload.ts";

export interface DemoOptions {
  readonly servers: number;
  /** Both halves together; undefined = two halves of 15 s, then on until a signal. */
  readonly durationMs: number | undefined;
  /** Progress on stderr, one line of figures on stdout. */
  readonly json: boolean;
  readonly seed: number;
  readonly killAtMs: number | undefined;
  /** What runs `sluice` in a child process. */
  readonly program: readonly string[];
}

const DEFAULT_HALF_MS = 15_000;
/** A round of the traffic that goes on after both halves. */
const LATER_MS = 600_000;
/** An answer without a byte for this long counts as failed. */
const ANSWER_LIMIT_MS = 15_000;
const GATEWAY_PORT = 8080;
const ADMIN_PORT = 19001;

/** Runs the demo; returns the exit status. */
export async function runDemo(options: DemoOptions): Promise<number> {
  const stop = new AbortController();
  const onSignal = (): void => stop.abort();
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  const demo = new Demo(options, realClock, stop);
  try {
    await demo.run();
    return stop.signal.aborted && options.durationMs !== undefined ? 130 : 0;
  } finally {
    await demo.close();
    process.off("SIGINT", onSignal);
    process.off("SIGTERM", onSignal);
  }
}

class Demo {
  readonly #options: DemoOptions;
  readonly #clock: Clock;
  readonly #stop: AbortController;
  readonly #screen: Screen;
  readonly #cluster: Cluster;
  readonly #summaries: HalfSummary[] = [];
  readonly #started: number;
  #gateway: Gateway | undefined;
  #client: Pool | undefined;
  #giveBackKeys: (() => void) | undefined;
  #firstAnswered = false;

  constructor(options: DemoOptions, clock: Clock, stop: AbortController) {
    const progress = options.json ? process.stderr : process.stdout;
    this.#options = options;
    this.#clock = clock;
    this.#stop = stop;
    this.#started = clock.now();
    this.#screen = new Screen({ write: (text) => progress.write(text), isTerminal: progress.isTTY === true });
    this.#cluster = new Cluster({ ...options, clock, say: (line) => this.#screen.say(line) });
  }

  async run(): Promise<void> {
    const { durationMs, json, seed, servers, killAtMs } = this.#options;
    const gateway = await this.#start();
    const halfMs = durationMs === undefined ? DEFAULT_HALF_MS : durationMs / 2;
    const list = demoWorkload(seed, halfMs, servers);
    const random = new SeededRandom(seed);
    this.#giveBackKeys = onKey((key) => {
      if (key === "k") this.#cluster.killOne(random);
      if (key === "q" || key === "\u0003") this.#stop.abort();
    });
    if (this.#giveBackKeys !== undefined) this.#screen.say("keys:   k kills a server (it returns after 3 s), q ends");
    if (killAtMs !== undefined) this.#clock.after(killAtMs, () => this.#cluster.killOne(random), true);

    this.#screen.say(`\nfirst half: round robin, ${list.length} requests`);
    this.#summaries.push(await this.#half("round-robin", list, halfMs));
    if (this.#stop.signal.aborted) return;
    this.#screen.say(`\nsecond half: the default profile, the same ${list.length} requests, caches and index emptied`);
    await gateway.useDefaultConfig();
    this.#summaries.push(await this.#half("sluice", list, halfMs));
    if (json) process.stdout.write(`${JSON.stringify({ policies: this.#summaries })}\n`);
    else for (const line of ["", ...comparison(this.#summaries)]) this.#screen.say(line);
    if (durationMs !== undefined || json) return;

    this.#screen.say("\nthe traffic goes on; Ctrl-C ends it");
    for (let round = 1; !this.#stop.signal.aborted; round++) {
      // The servers' caches are emptied for a round, so what the picker believes of them is, too.
      await gateway.useDefaultConfig();
      await this.#half("sluice, on", demoWorkload(seed + round, LATER_MS, servers), LATER_MS);
    }
  }

  async close(): Promise<void> {
    this.#giveBackKeys?.();
    // The servers first: with them gone nothing that is left to close can wait for them.
    this.#cluster.stop();
    await this.#client?.destroy();
    await this.#gateway?.close();
  }

  async #start(): Promise<Gateway> {
    const say = (line: string): void => this.#screen.say(line);
    say(`starting ${this.#options.servers} simulated model servers`);
    const endpointsFile = await this.#cluster.start();
    say("starting the gateway");
    const gateway = await startGateway({
      endpointsFile,
      listen: { host: "127.0.0.1", port: await freePort("127.0.0.1", GATEWAY_PORT) },
      admin: { host: "127.0.0.1", port: await freePort("127.0.0.1", ADMIN_PORT) },
      configText: ROUND_ROBIN,
      maxRetries: 2,
      retryStatuses: [503],
      objectives: [],
      debugOpen: false,
      log: silentLogger,
    });
    this.#gateway = gateway;
    for (const listening of gateway.listening) say(readyLine(listening, process.pid));
    const base = `http://${gateway.listening[0]!.address}`;
    this.#client = new Pool(base, {
      connections: 128,
      pipelining: 1,
      headersTimeout: ANSWER_LIMIT_MS,
      bodyTimeout: ANSWER_LIMIT_MS,
    });
    // Whoever ends the demo does not wait for answers.
    this.#stop.signal.addEventListener("abort", () => void this.#client?.destroy());
    say(`look:   http://${gateway.listening[1]!.address}/`);
    say(`try:    curl ${base}/v1/models`);
    say(
      `        curl ${base}/v1/chat/completions -H 'content-type: application/json' -d '{"model":"sim","messages":[{"role":"user","content":"hello"}]}'`,
    );
    return gateway;
  }

  /** One half: the caches start empty, the list is sent, the table is drawn every second. */
  async #half(name: string, list: readonly WorkloadRequest[], lengthMs: number): Promise<HalfSummary> {
    const signal = this.#stop.signal;
    await this.#cluster.reset();
    const half = new Half(name);
    const begin = this.#clock.now();
    const seconds = (): number => (this.#clock.now() - begin) / 1000;
    const traffic = runTraffic(this.#client!, this.#clock, list, signal, (outcome) => {
      // What is cut off because the demo ends is nobody's failure.
      if (signal.aborted) return;
      if (!this.#firstAnswered) {
        this.#firstAnswered = true;
        const after = (this.#clock.now() - this.#started) / 1000;
        this.#screen.say(`first request completed ${after.toFixed(1)} s after the start`);
      }
      half.add(outcome);
    });
    while (!signal.aborted && this.#clock.now() - begin < lengthMs) {
      const left = begin + lengthMs - this.#clock.now();
      await delay(this.#clock, Math.min(1000, left), signal).catch(() => undefined);
      if (signal.aborted) break;
      await this.#cluster.readCaches();
      this.#draw(half.summary(seconds(), this.#cluster.caches.hitRate));
    }
    await traffic;
    if (!signal.aborted) await this.#cluster.readCaches();
    for (const problem of half.problems) this.#screen.say(`failed: ${problem}`);
    return half.summary(seconds(), this.#cluster.caches.hitRate);
  }

  #draw(summary: HalfSummary): void {
    const { servers } = this.#cluster;
    const endpoints = this.#gateway!.endpoints();
    this.#screen.draw(
      livePicture([...this.#summaries, summary], servers, endpoints),
      oneLine(summary, servers, endpoints),
    );
  }
}
