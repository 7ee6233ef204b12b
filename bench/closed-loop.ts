/**
 * The frontier of the dispatch gate, in virtual time: what a backlog gets, and what it costs realtime traffic, over the reserved
 * baseline B; beside no backlog, no gate, and a gate that knows the present. Then the flow control of the picker without a gate and
 * behind one: holdback and eviction. `--seconds` (of virtual time, default 120), `--seed`.
 *
 * With `--seeds N` it prints the aims of flow control instead, for N seeds: beside a sheddable backlog without a gate, the TTFT p99
 * of realtime requests is at most 1.1 times that of realtime alone, eviction wastes at most 3 % of the tokens, and the backlog gets
 * at least 70 % of what it gets behind the best bearable oracle.
 *
 * With `--shapes` it prints what a batch of the Batch API does at the defaults, for several pools, shapes of realtime traffic and
 * lengths of lines: TTFT p99 of realtime requests beside the batch and alone, and the lines that ended over those that the room above
 * the baseline allows.
 */
import { parseArgs } from "node:util";
import { quantile } from "../src/base/telemetry/quantile.ts";
import { DEFAULT_BASELINE } from "./closed-loop/batch.ts";
import { type ClosedLoop, type ClosedLoopResult, closedLoop, SLOTS, WARM_UP } from "./closed-loop/closed-loop.ts";

const { values } = parseArgs({
  options: {
    ...{ seconds: { type: "string" }, seed: { type: "string" }, seeds: { type: "string" } },
    shapes: { type: "boolean" },
  },
});
const base = {
  servers: 4,
  seed: Number(values.seed ?? 1),
  duration: Number(values.seconds ?? 120) * 1000,
  realtimeShare: 0.4,
};
const BASELINES = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5];
const BEARABLE = 1.25;

const p99 = ({ ttfts }: ClosedLoopResult): number => quantile(ttfts, 0.99);

/** The flow control of the picker with a gate that lets everything through, and with one that reads the saturation. */
const QUEUES = [
  ["defaults", { eviction: false }],
  ["holdback 0.75", { eviction: false, ceiling: 0.75 }],
  ["holdback 0.65", { eviction: false, ceiling: 0.65 }],
  ["eviction", { eviction: true }],
  ["holdback 0.7, eviction", { eviction: true, ceiling: 0.7 }],
  ["holdback 0.75, eviction", { eviction: true, ceiling: 0.75 }],
  ["holdback 0.9, eviction", { eviction: true, ceiling: 0.9 }],
] as const;

async function frontiers(): Promise<void> {
  const alone = await closedLoop({ ...base, gate: "none" });
  const line = (name: string, run: ClosedLoopResult): void =>
    console.log(
      `${name.padEnd(34)} ${p99(run).toFixed(0).padStart(8)} ms ${(p99(run) / p99(alone)).toFixed(2).padStart(8)}x ` +
        `${String(run.finished).padStart(8)} done ${String(run.peak).padStart(5)} at once` +
        (run.evicted === 0 ? "" : ` ${run.evicted} evicted, ${(100 * run.wasted).toFixed(1)} % of the tokens wasted`),
    );
  console.log(`${"".padEnd(34)} TTFT p99 realtime  against alone  backlog`);
  line("no backlog", alone);
  line("backlog, no gate", await closedLoop({ ...base, gate: "open" }));

  /** Prints one frontier; returns the most that a bearable run finished. */
  async function frontier(name: string, options: Partial<ClosedLoop>): Promise<number> {
    let best = 0;
    for (const baseline of BASELINES) {
      const run = await closedLoop({ ...base, gate: "budget", ...options, baseline });
      line(`${name}, B ${baseline}`, run);
      if (p99(run) <= BEARABLE * p99(alone)) best = Math.max(best, run.finished);
    }
    return best;
  }

  const oracle = await frontier("oracle", { gate: "oracle" });
  for (const [name, options] of [
    ["running, scraped every 1 s", { published: "running" }],
    ["running, scraped every 15 s", { published: "running", scrapeInterval: 15_000, cacheTtl: 5000 }],
    ["waiting, scraped every 1 s", { published: "waiting" }],
  ] as const) {
    const best = await frontier(name, options);
    console.log(
      `${name}: ${((100 * best) / oracle).toFixed(0)} % of what the oracle gives at ${BEARABLE}x or better\n`,
    );
  }
  for (const [name, flowControl] of QUEUES)
    line(`no gate, ${name}`, await closedLoop({ ...base, gate: "open", flowControl }));
  line("batch, flow control off", await closedLoop({ ...base, gate: "batch" }));
  for (const [name, flowControl] of QUEUES)
    line(`batch, ${name}`, await closedLoop({ ...base, gate: "batch", flowControl }));
  for (const [name, flowControl] of QUEUES)
    line(`gate 0.75, ${name}`, await closedLoop({ ...base, gate: "saturation", baseline: 0.25, flowControl }));
}

const AIMS = { slower: 1.1, wasted: 0.03, finished: 0.7 };

/** The aims of flow control, held or not: the mean over the seeds, and the figure of each. */
async function aims(seeds: number): Promise<void> {
  const found = new Map<string, ClosedLoopResult[]>();
  const alone: number[] = [];
  const oracles: number[] = [];
  for (let seed = 1; seed <= seeds; seed++) {
    const own = { ...base, seed };
    const undisturbed = p99(await closedLoop({ ...own, gate: "none" }));
    alone.push(undisturbed);
    let best = 0;
    for (const baseline of BASELINES) {
      const run = await closedLoop({ ...own, gate: "oracle", baseline });
      if (p99(run) <= BEARABLE * undisturbed) best = Math.max(best, run.finished);
    }
    oracles.push(best);
    for (const [name, flowControl] of QUEUES) {
      const runs = found.get(name) ?? [];
      found.set(name, [...runs, await closedLoop({ ...own, gate: "open", flowControl })]);
    }
  }
  const mean = (list: readonly number[]): number => list.reduce((sum, value) => sum + value, 0) / list.length;
  const show = (name: string, figure: string, list: readonly number[], holds: (value: number) => boolean): void => {
    const verdict = holds(mean(list)) ? "held    " : "NOT HELD";
    const each = list.map((value) => value.toFixed(2)).join(" ");
    console.log(
      `${verdict} ${name.padEnd(24)} ${figure.padEnd(18)} mean ${mean(list).toFixed(2)}, ${list.filter(holds).length} of ${seeds} seeds: ${each}`,
    );
  };
  for (const [name, runs] of found) {
    show(
      name,
      "TTFT p99 by alone",
      runs.map((run, i) => p99(run) / alone[i]!),
      (value) => value <= AIMS.slower,
    );
    show(
      name,
      "wasted",
      runs.map(({ wasted }) => wasted),
      (value) => value <= AIMS.wasted,
    );
    show(
      name,
      "backlog by oracle",
      runs.map(({ finished }, i) => finished / oracles[i]!),
      (value) => value >= AIMS.finished,
    );
  }
}

/** The rate of realtime traffic that has no weight but leaves times to first token. */
const IDLE = 0.0005;
const SHAPES = [
  ["steady", IDLE],
  ["steady", 0.3],
  ["steady", 0.6],
  ["steady", 0.9],
  ["wave", 0.4],
  ["bursts", 0.3],
] as const;

async function shapes(): Promise<void> {
  console.log(
    "servers, shape, realtime share, tokens per line: TTFT p99 alone, beside the batch, lines by room, evicted, wasted",
  );
  for (const servers of [1, 3, 10])
    for (const [shape, realtimeShare] of SHAPES)
      for (const lineTokens of [20, 200]) {
        const loop = { servers, shape, realtimeShare, lineTokens, seed: base.seed, duration: base.duration } as const;
        const alone = await closedLoop({ ...loop, gate: "none" });
        const beside = await closedLoop({ ...loop, gate: "batch" });
        const seconds = 0.0456 + (lineTokens - 1) / 100;
        const room = Math.max(0, 1 - DEFAULT_BASELINE - realtimeShare) * servers * SLOTS;
        const most = (room * (base.duration - WARM_UP)) / 1000 / seconds;
        console.log(
          `${servers} ${shape} ${realtimeShare} ${lineTokens}`.padEnd(24) +
            `${p99(alone).toFixed(1).padStart(8)} ms ${p99(beside).toFixed(1).padStart(8)} ms ${(p99(beside) / p99(alone)).toFixed(2)}x ` +
            `${String(beside.finished).padStart(7)} lines, ${most === 0 ? "no room" : (beside.finished / most).toFixed(2)} ` +
            `${beside.evicted} evicted, ${(100 * beside.wasted).toFixed(1)} % of the tokens wasted`,
        );
      }
}

if (values.shapes) await shapes();
else if (values.seeds === undefined) await frontiers();
else await aims(Number(values.seeds));
