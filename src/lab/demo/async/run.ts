import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { SLOT_SERVER } from "../cluster.ts";
import { type DemoEnvironment, inEnvironment, type RunningDemo } from "../environment.ts";
import { busyNote } from "../lag.ts";
import { runTraffic } from "../traffic.ts";
import { type BacklogRunOptions, DemoBacklog } from "./backlog.ts";
import { type BudgetGate, DemoDispatcher, dispatchConfig } from "./dispatcher.ts";
import { playPhase } from "./phase.ts";
import { realtimeList } from "./realtime.ts";
import { type PhaseSummary, phaseTable } from "./summary.ts";

export interface AsyncDemoOptions {
  readonly servers: number;
  /** Duration of the three acts together; undefined = three acts of 20 s, then the demo continues until a signal. */
  readonly durationMs: number | undefined;
  /** Progress on stderr, one line of figures on stdout. */
  readonly json: boolean;
  readonly seed: number;
  /** Program and arguments that run `sluice` in a child process. */
  readonly program: readonly string[];
}

const DEFAULT_ACT_MS = 20_000;
/** B: the share of the slots that the backlog leaves free for realtime traffic to grow into (`bench/closed-loop`). */
const BASELINE = 0.35;
/** Backlog requests per slot and second of an act: as many as an act with the gate can finish. */
const WORK = 1 / 5;
/** Milliseconds of traffic that are not measured, so that Node.js compiles the code first. */
const WARM_UP_MS = 2500;

const NEXT = "Next: a queue in front of your own servers, see docs/use/async.md.";

/** The backlog of an act. */
interface BacklogPlan {
  readonly gated: boolean;
  /** Whether the demo kills the dispatcher during the act. */
  readonly kill: boolean;
}

interface ActPlan {
  readonly name: string;
  /** @param count number of backlog requests */
  title(count: number, slots: number): string;
  readonly backlog: BacklogPlan | undefined;
}

const ACTS: readonly ActPlan[] = [
  {
    name: "realtime alone",
    title: () => "1 of 3: realtime traffic alone, with a wave in the middle",
    backlog: undefined,
  },
  {
    name: "backlog, gate",
    title: (count, slots) =>
      `2 of 3: the same traffic, plus ${count} requests with long answers in a queue
  behind a gate.
  N = ${slots} slots x (D - B) more may start. D: the free share; B = ${BASELINE}: the share kept free.
  Near the end the demo kills the dispatcher; its requests return to the queue when
  their leases expire.`,
    backlog: { gated: true, kill: true },
  },
  {
    name: "backlog, no gate",
    title: (count) => `3 of 3: the same traffic and ${count} more such requests, without the gate`,
    backlog: { gated: false, kill: false },
  },
];

/** Runs the demo with a backlog; returns the exit status, which is 1 when a message is lost or has two results. */
export function runAsyncDemo(options: AsyncDemoOptions): Promise<number> {
  return inEnvironment({ ...options, modelServer: SLOT_SERVER }, (stage) => new AsyncDemo(options, stage).run());
}

class AsyncDemo {
  readonly #options: AsyncDemoOptions;
  readonly #stage: DemoEnvironment;
  readonly #slots: number;
  readonly #lengthMs: number;
  #queues = 0;
  #dispatcher: DemoDispatcher | undefined;

  constructor(options: AsyncDemoOptions, stage: DemoEnvironment) {
    this.#options = options;
    this.#stage = stage;
    this.#slots = options.servers * SLOT_SERVER.maxNumSeqs;
    this.#lengthMs = options.durationMs === undefined ? DEFAULT_ACT_MS : options.durationMs / 3;
  }

  async run(): Promise<number> {
    const { durationMs, json, seed } = this.#options;
    const { screen, signal } = this.#stage;
    const setting = await this.#stage.start();
    this.#stage.beforeEnd(() => this.#dispatcher?.stop());
    this.#stage.listenToKeys("k kills the dispatcher (it returns after 1 s)", (key) => {
      if (key === "k") this.#dispatcher?.kill();
    });
    await this.#warmUp(setting);

    const slots = this.#slots;
    const count = this.#count;
    const acts: PhaseSummary[] = [];
    for (const { name, title, backlog } of ACTS) {
      if (signal.aborted) break;
      screen.say(`\n${title(count, slots)}`);
      acts.push(await this.#act(setting, name, seed, backlog));
    }
    if (signal.aborted) return durationMs === undefined ? 0 : 130;
    if (json) process.stdout.write(`${JSON.stringify({ acts })}\n`);
    else for (const line of ["", ...phaseTable(acts), "", NEXT]) screen.say(line);
    for (const line of busyNote(acts)) screen.say(line);
    const lost = acts.some(({ backlog }) => backlog !== undefined && backlog.lost + backlog.twice > 0);
    if (durationMs !== undefined || json) return lost ? 1 : 0;

    screen.say("\nThe demo continues with the gate; Ctrl-C ends it.");
    for (let round = 1; !signal.aborted; round++)
      await this.#act(setting, "on", seed + round, { gated: true, kill: false });
    return lost ? 1 : 0;
  }

  get #count(): number {
    return Math.round((this.#slots * WORK * this.#lengthMs) / 1000);
  }

  #gate({ adminUrl }: RunningDemo): BudgetGate {
    const slotsPerServer = SLOT_SERVER.maxNumSeqs;
    return { url: `${adminUrl}/metrics`, slotsPerServer, slots: this.#slots, baseline: BASELINE };
  }

  async #warmUp({ client }: RunningDemo): Promise<void> {
    const { clock, screen, signal } = this.#stage;
    screen.say("warming up");
    const list = realtimeList({ seed: this.#options.seed, lengthMs: WARM_UP_MS, slots: this.#slots });
    await runTraffic(client, clock, list, signal, { ended() {} });
  }

  async #act(setting: RunningDemo, name: string, seed: number, plan: BacklogPlan | undefined): Promise<PhaseSummary> {
    const lengthMs = this.#lengthMs;
    const slots = this.#slots;
    // The servers' caches are empty now, so the prefix index must be empty, too.
    await setting.gateway.useDefaultConfig();
    const realtime = realtimeList({ seed, lengthMs, slots });
    const act = { name, realtime, lengthMs, slots };
    if (plan === undefined) return playPhase(this.#stage, setting.client, act);
    return playPhase(this.#stage, setting.client, { ...act, backlog: await this.#backlog(setting, seed, plan) });
  }

  /** A backlog with its own queue, and a running dispatcher for it. */
  async #backlog(setting: RunningDemo, seed: number, { gated, kill }: BacklogPlan): Promise<BacklogRunOptions> {
    const { cluster, clock, screen } = this.#stage;
    const path = join(cluster.folder, "queue.db");
    const queueName = `backlog-${++this.#queues}`;
    const work = new DemoBacklog({ path, queueName, count: this.#count, seed, clock });
    const file = join(cluster.folder, "dispatch.yaml");
    const gate = gated ? this.#gate(setting) : undefined;
    // Without the gate all workers are busy, and there are more workers than slots. The demo shows why that needs a gate.
    const workers = 2 * this.#slots;
    writeFileSync(file, dispatchConfig({ path, queueName, gatewayUrl: setting.gatewayUrl, workers, gate }));
    const { program } = this.#options;
    const dispatcher = new DemoDispatcher({ file, program, clock, say: (line) => this.#stage.tell(line) });
    this.#dispatcher = dispatcher;
    await dispatcher.start();
    screen.say(`look:   curl ${dispatcher.url}/debug/gates`);
    return { work, dispatcher, kill };
  }
}
