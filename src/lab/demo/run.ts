import { delay } from "../../base/clock/clock.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import type { DemoPolicy } from "../../wires/admin/feed/demo.ts";
import type { Gateway } from "../../wires/gateway/gateway.ts";
import { MODEL_SERVER } from "./cluster.ts";
import { controlRoutes } from "./control-routes.ts";
import { Controls } from "./controls.ts";
import { type DemoEnvironment, inEnvironment, type RunningDemo } from "./environment.ts";
import { busyNote, LagMeter } from "./lag.ts";
import { runLive } from "./live-traffic.ts";
import { livePicture, PolicyFigures, type PolicySummary, policyFiguresTable, policyLine } from "./policy-figures.ts";
import { type DemoRequest, demoWorkload, type RequestOutcome, runTraffic } from "./traffic.ts";
import { DemoWave } from "./wave.ts";

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

/** Runs the demo; returns the exit status. */
export function runDemo(options: DemoOptions): Promise<number> {
  return inEnvironment({ ...options, modelServer: MODEL_SERVER }, async (stage) => {
    await new Demo(options, stage).run();
    return stage.signal.aborted && options.durationMs !== undefined ? 130 : 0;
  });
}

/** Sends requests and reports each outcome; resolves after the last one. */
type Traffic = (ended: (outcome: RequestOutcome) => void) => Promise<void>;

/** The traffic of a list. */
function listed(list: readonly DemoRequest[], { client }: RunningDemo, { clock, signal }: DemoEnvironment): Traffic {
  return (ended) => runTraffic(client, clock, list, signal, { ended });
}

class Demo {
  readonly #options: DemoOptions;
  readonly #stage: DemoEnvironment;
  readonly #summaries: PolicySummary[] = [];
  readonly #started: number;
  #firstAnswered = false;
  #gateway: Gateway | undefined;

  constructor(options: DemoOptions, stage: DemoEnvironment) {
    this.#options = options;
    this.#stage = stage;
    this.#started = stage.clock.now();
  }

  async run(): Promise<void> {
    const { durationMs, json, seed, servers, killAtMs } = this.#options;
    const { clock, cluster, screen, signal } = this.#stage;
    const controls = new Controls(clock, cluster, (text) => this.#gateway?.note(text));
    const setting = await this.#stage.start({
      configText: ROUND_ROBIN,
      demo: (app) => controlRoutes(app, controls),
    });
    const { adminUrl, gateway, gatewayUrl } = setting;
    this.#gateway = gateway;
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
    this.#summaries.push(
      await this.#half(setting, controls, "round-robin", listed(list, setting, this.#stage), halfMs),
    );
    if (signal.aborted) return;
    screen.say(`\nsecond half: the default profile, the same ${list.length} requests, caches and index emptied`);
    await gateway.useDefaultConfig();
    controls.runs("sluice");
    this.#summaries.push(await this.#half(setting, controls, "sluice", listed(list, setting, this.#stage), halfMs));
    if (json) process.stdout.write(`${JSON.stringify({ policies: this.#summaries })}\n`);
    else for (const line of ["", ...policyFiguresTable(this.#summaries)]) screen.say(line);
    for (const line of busyNote(this.#summaries)) screen.say(line);
    if (durationMs !== undefined || json) return;

    screen.say(`\nwhy a request went to its server: sluice explain --admin ${adminUrl} --last`);
    screen.say(`the traffic continues; control it on the page: ${adminUrl}/; Ctrl-C ends the demo`);
    await this.#live(setting, controls);
  }

  /** Traffic at the rate and with the policy that the page orders, until the end of the demo. */
  async #live(setting: RunningDemo, controls: Controls): Promise<void> {
    const { clock, cluster, signal } = this.#stage;
    const { program, seed, servers } = this.#options;
    const random = new SeededRandom(seed + 1);
    const { adminUrl, gateway, gatewayUrl, client } = setting;
    const wave = new DemoWave({
      ...{ folder: cluster.folder, gatewayUrl, adminUrl, servers, program, clock, random },
      slotsPerServer: MODEL_SERVER.maxNumSeqs,
      say: (line) => this.#stage.tell(line),
    });
    this.#stage.beforeEnd(() => wave.stop());
    controls.open(wave);
    while (!signal.aborted) {
      const policy = controls.policyNow;
      controls.runs(policy);
      // The servers' caches are emptied, so the prefix index must be empty, too.
      await (policy === "sluice" ? gateway.useDefaultConfig() : gateway.useConfigText(ROUND_ROBIN));
      const over = AbortSignal.any([signal, controls.changed]);
      const run: Traffic = (ended) =>
        runLive({ client, clock, random, signal: over, rate: () => controls.rate, ended });
      await this.#half(setting, controls, policy, run, Number.POSITIVE_INFINITY, over);
    }
  }

  /** One half: starts with empty caches, sends the list and draws the table every second. */
  async #half(
    { gateway }: RunningDemo,
    controls: Controls,
    policy: DemoPolicy,
    run: Traffic,
    lengthMs: number,
    over = this.#stage.signal,
  ): Promise<PolicySummary> {
    const { clock, cluster, screen, signal } = this.#stage;
    const name = lengthMs === Number.POSITIVE_INFINITY ? `${policy}, on` : policy;
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
    const traffic = run(ended);
    const draw = (summary: PolicySummary): void => {
      controls.measured(policy, seconds(), summary);
      const endpoints = gateway.endpoints();
      screen.draw(
        livePicture([...this.#summaries, summary], cluster.servers, endpoints),
        policyLine(summary, cluster.servers, endpoints),
      );
    };
    while (!over.aborted && clock.now() - begin < lengthMs) {
      const left = begin + lengthMs - clock.now();
      await delay(clock, Math.min(1000, left), over).catch(() => undefined);
      if (over.aborted) break;
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
