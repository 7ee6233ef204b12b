import { delay } from "../../base/clock/clock.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { MODEL_SERVER } from "./cluster.ts";
import { type DemoEnvironment, inEnvironment, type RunningDemo } from "./environment.ts";
import { busyNote, LagMeter } from "./lag.ts";
import { livePicture, PolicyFigures, type PolicySummary, policyFiguresTable, policyLine } from "./policy-figures.ts";
import { type DemoRequest, demoWorkload, type RequestOutcome, runTraffic } from "./traffic.ts";

export interface DemoOptions {
  readonly servers: number;
  /** Duration of both halves together; undefined = two halves of 15 s, then the demo continues until a signal. */
  readonly durationMs: number | undefined;
  /** Progress on stderr, one line of figures on stdout. */
  readonly json: boolean;
  readonly seed: number;
  readonly killAtMs: number | undefined;
  /** Program and arguments that run `sluice` in a child process. */
  readonly program: readonly string[];
}

const DEFAULT_HALF_MS = 15_000;
/** Milliseconds of a round of the traffic after both halves. */
const LATER_MS = 600_000;

/** Runs the demo; returns the exit status. */
export function runDemo(options: DemoOptions): Promise<number> {
  return inEnvironment({ ...options, modelServer: MODEL_SERVER }, async (stage) => {
    await new Demo(options, stage).run();
    return stage.signal.aborted && options.durationMs !== undefined ? 130 : 0;
  });
}

class Demo {
  readonly #options: DemoOptions;
  readonly #stage: DemoEnvironment;
  readonly #summaries: PolicySummary[] = [];
  readonly #started: number;
  #firstAnswered = false;

  constructor(options: DemoOptions, stage: DemoEnvironment) {
    this.#options = options;
    this.#stage = stage;
    this.#started = stage.clock.now();
  }

  async run(): Promise<void> {
    const { durationMs, json, seed, servers, killAtMs } = this.#options;
    const { clock, cluster, screen, signal } = this.#stage;
    const setting = await this.#stage.start({ configText: ROUND_ROBIN });
    const { adminUrl, gateway, gatewayUrl } = setting;
    screen.say(
      `        curl ${gatewayUrl}/v1/chat/completions -H 'content-type: application/json' -d '{"model":"sim","messages":[{"role":"user","content":"hello"}]}'`,
    );
    const halfMs = durationMs === undefined ? DEFAULT_HALF_MS : durationMs / 2;
    const list = demoWorkload(seed, halfMs, servers);
    const random = new SeededRandom(seed);
    this.#stage.listenToKeys("k kills a server (it returns after 3 s)", (key) => {
      if (key === "k") cluster.killOne(random);
    });
    if (killAtMs !== undefined) clock.after(killAtMs, () => cluster.killOne(random), true);

    screen.say(`\nfirst half: round robin, ${list.length} requests`);
    this.#summaries.push(await this.#half(setting, "round-robin", list, halfMs));
    if (signal.aborted) return;
    screen.say(`\nsecond half: the default profile, the same ${list.length} requests, caches and index emptied`);
    await gateway.useDefaultConfig();
    this.#summaries.push(await this.#half(setting, "sluice", list, halfMs));
    if (json) process.stdout.write(`${JSON.stringify({ policies: this.#summaries })}\n`);
    else for (const line of ["", ...policyFiguresTable(this.#summaries)]) screen.say(line);
    for (const line of busyNote(this.#summaries)) screen.say(line);
    if (durationMs !== undefined || json) return;

    screen.say(`\nwhy a request went to its server: sluice explain --admin ${adminUrl} --last`);
    screen.say("the traffic goes on; Ctrl-C ends it");
    for (let round = 1; !signal.aborted; round++) {
      // The servers' caches are emptied for a round, so the prefix index must be empty, too.
      await gateway.useDefaultConfig();
      await this.#half(setting, "sluice, on", demoWorkload(seed + round, LATER_MS, servers), LATER_MS);
    }
  }

  /** One half: starts with empty caches, sends the list and draws the table every second. */
  async #half(
    { client, gateway }: RunningDemo,
    name: string,
    list: readonly DemoRequest[],
    lengthMs: number,
  ): Promise<PolicySummary> {
    const { clock, cluster, screen, signal } = this.#stage;
    await cluster.reset();
    const half = new PolicyFigures(name);
    const lag = new LagMeter(clock);
    const begin = clock.now();
    const seconds = (): number => (clock.now() - begin) / 1000;
    const ended = (outcome: RequestOutcome): void => {
      // A request that the end of the demo cuts off does not count as failed.
      if (signal.aborted) return;
      if (!this.#firstAnswered) {
        this.#firstAnswered = true;
        const after = (clock.now() - this.#started) / 1000;
        screen.say(`first request completed ${after.toFixed(1)} s after the start`);
      }
      half.add(outcome);
    };
    const traffic = runTraffic(client, clock, list, signal, { ended });
    const draw = (summary: PolicySummary): void => {
      const endpoints = gateway.endpoints();
      screen.draw(
        livePicture([...this.#summaries, summary], cluster.servers, endpoints),
        policyLine(summary, cluster.servers, endpoints),
      );
    };
    while (!signal.aborted && clock.now() - begin < lengthMs) {
      const left = begin + lengthMs - clock.now();
      await delay(clock, Math.min(1000, left), signal).catch(() => undefined);
      if (signal.aborted) break;
      await cluster.readCaches();
      draw(half.summary(seconds(), cluster.caches.hitRate, lag.summary()));
    }
    await traffic;
    if (!signal.aborted) await cluster.readCaches();
    lag.stop();
    for (const problem of half.problems) screen.say(`failed: ${problem}`);
    return half.summary(seconds(), cluster.caches.hitRate, lag.summary());
  }
}

/** The configuration of the demo's first half: a picker without any scorer. */
export const ROUND_ROBIN = `
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: round-robin-picker
schedulingProfiles:
- name: round-robin
  plugins:
  - pluginRef: round-robin-picker
`;
