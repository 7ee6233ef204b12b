import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Producer } from "../../async/brokers/queue-client.ts";
import { sqliteProducer } from "../../async/brokers/sqlite/producer.ts";
import type { Clock } from "../../base/clock/clock.ts";
import type { SeededRandom } from "../../base/clock/random.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import type { DemoState } from "../../wires/admin/feed/demo.ts";
import { DemoDispatcher, dispatchConfig } from "./async/dispatcher.ts";
import { words } from "./traffic.ts";

const QUEUE = "wave";
/** B: the share of the slots that the wave leaves free. */
const BASELINE = 0.35;
/** Seconds until the deadline of a message, and the most messages that wait. */
const PATIENCE = 900;
const MOST_WAITING = 2000;

/** Before the first wave. */
export const NO_WAVE: DemoState["wave"] = {
  ...{ waiting: 0, inFlight: 0, done: 0, state: "none" },
  ...{ gate: "", because: "", etaSeconds: null },
};

interface WaveOptions {
  /** For the queue and the configuration. */
  readonly folder: string;
  readonly gatewayUrl: string;
  readonly adminUrl: string;
  readonly servers: number;
  readonly slotsPerServer: number;
  /** Program and arguments that run `sluice` in a child process. */
  readonly program: readonly string[];
  readonly clock: Clock;
  readonly random: SeededRandom;
  say(line: string): void;
}

/** Waves of messages for a dispatcher with a gate, which starts with the first wave. */
export class DemoWave {
  readonly #options: WaveOptions;
  #running: Promise<{ readonly producer: Producer; readonly dispatcher: DemoDispatcher }> | undefined;
  #sent = 0;

  constructor(options: WaveOptions) {
    this.#options = options;
  }

  /** Puts messages into the queue. @returns a problem, for people; undefined = they are in */
  async send(count: number): Promise<string | undefined> {
    const { clock, random } = this.#options;
    this.#running ??= this.#start();
    const { producer } = await this.#running;
    if ((await producer.requestQueueDepth()) + count > MOST_WAITING) return `at most ${MOST_WAITING} messages can wait`;
    const deadline = Math.floor(clock.wall() / 1000) + PATIENCE;
    await producer.submitRequests(
      Array.from({ length: count }, () => ({
        id: `${QUEUE}-${++this.#sent}`,
        deadline,
        payload: { model: "sim", prompt: words(random, 60), max_tokens: 60 + random.below(41), ignore_eos: true },
      })),
    );
    return undefined;
  }

  async state(): Promise<DemoState["wave"]> {
    if (this.#running === undefined) return NO_WAVE;
    const { producer, dispatcher } = await this.#running;
    const [waiting, done] = [await producer.requestQueueDepth(), await producer.resultQueueDepth()];
    const view = await dispatcher.look();
    return {
      ...{ waiting, done },
      inFlight: view?.running ?? 0,
      state: done >= this.#sent ? "done" : "running",
      gate: view?.gate?.state ?? "unknown",
      because: view?.gate?.because ?? "the dispatcher does not answer",
      etaSeconds: view?.etaSeconds ?? null,
    };
  }

  async stop(): Promise<void> {
    const running = await this.#running?.catch(() => undefined);
    await running?.dispatcher.stop();
    await running?.producer.close();
  }

  async #start(): Promise<{ producer: Producer; dispatcher: DemoDispatcher }> {
    const { folder, gatewayUrl, adminUrl, servers, slotsPerServer, program, clock, random, say } = this.#options;
    const path = join(folder, "wave.db");
    const producer = sqliteProducer(
      { path, requestQueueName: QUEUE, resultQueueName: `${QUEUE}-results` },
      { clock, random, log: silentLogger },
    );
    const slots = servers * slotsPerServer;
    const gate = { url: `${adminUrl}/metrics`, slotsPerServer, slots, baseline: BASELINE };
    const file = join(folder, "wave.yaml");
    writeFileSync(file, dispatchConfig({ path, queueName: QUEUE, gatewayUrl, workers: slots, gate }));
    const dispatcher = new DemoDispatcher({ file, program, clock, say });
    await dispatcher.start();
    say(`look:   ${dispatcher.url}/debug/feed/queues`);
    return { producer, dispatcher };
  }
}
