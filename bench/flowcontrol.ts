/**
 * Cost of flow control: dispatches from standing queues, the time that a request spends in it while the pool has room, and the
 * memory of a queued request. Beside it runs a bare loop that takes the same requests from one array.
 *
 * One flow control serves all rounds of a row, as it does in a process: what V8 has optimised for an object, it throws away when
 * the object is gone. The first rounds warm the code, and the best round counts.
 *
 *   node --expose-gc bench/flowcontrol.ts [--queued 10000] [--rounds 20]
 */
import { parseArgs } from "node:util";
import { realClock } from "../src/base/clock/real.ts";
import type { InferenceRequest } from "../src/base/inference/request.ts";
import type { FairnessPolicy } from "../src/base/plugin/flow-kinds.ts";
import { quantile } from "../src/base/telemetry/quantile.ts";
import { FlowControl, type Ticket } from "../src/picker/flowcontrol/flow-control.ts";
import { globalStrictFairnessPolicy, roundRobinFairnessPolicy } from "../src/picker/flowcontrol/policies/fairness.ts";
import { tokenDeficitFairnessPolicy } from "../src/picker/flowcontrol/policies/token-deficit.ts";
import { flowSettings, silentEvents } from "../test/support/flow-control.ts";
import { endpointOf, instanceOf, requestOf } from "../test/support/scheduling/fakes.cases.ts";

const { values } = parseArgs({
  options: { queued: { type: "string", default: "10000" }, rounds: { type: "string", default: "20" } },
});
const queued = Number(values.queued);
const rounds = Number(values.rounds);
const gc = (globalThis as { gc?: () => void }).gc ?? (() => {});
const POOL = Array.from({ length: 10 }, (_, i) => endpointOf(i));
const POLICIES: readonly (readonly [string, () => FairnessPolicy])[] = [
  ["one queue", () => instanceOf(globalStrictFairnessPolicy)],
  ["round robin", () => instanceOf(roundRobinFairnessPolicy)],
  ["token deficit", () => instanceOf(tokenDeficitFairnessPolicy)],
];

interface Run {
  /** Per second. */
  readonly dispatches: number;
  /** Per second of CPU time of all threads: other work on the machine changes this figure least. */
  readonly perCpuSecond: number;
}

function requestsOf(flows: number): readonly InferenceRequest[] {
  const one = requestOf("prompt");
  const ids = Array.from({ length: flows }, (_, i) => `tenant-${i}`);
  return Array.from({ length: queued }, (_, i) => ({ ...one, id: `r${i}`, fairnessId: ids[i % flows]! }));
}

/** A flow control, and the saturation of its pool. */
interface Flows {
  readonly flowControl: FlowControl;
  saturation: number;
}

function flowsOf(fairness: FairnessPolicy): Flows {
  const settings = flowSettings(() => flows.saturation);
  const band = { ...settings.template, fairness, maxRequests: Number.POSITIVE_INFINITY };
  const flowControl = new FlowControl({
    clock: realClock,
    settings: { ...settings, template: band, negativeTemplate: band },
    pool: () => POOL,
    events: silentEvents(),
  });
  const flows: Flows = { flowControl, saturation: 1 };
  return flows;
}

/** Bytes of heap for each queued request, without its body. */
function memory(fairness: FairnessPolicy, requests: readonly InferenceRequest[]): number {
  const { flowControl } = flowsOf(fairness);
  const tickets = new Array<Ticket>(requests.length);
  gc();
  const before = process.memoryUsage().heapUsed;
  for (const [i, request] of requests.entries())
    tickets[i] = flowControl.enter(request, 1, 0, { dispatched: () => void tickets[i], evicted() {} }) as Ticket;
  gc();
  const bytes = (process.memoryUsage().heapUsed - before) / requests.length;
  flowControl.close();
  return bytes;
}

/** Fills the queues, then opens the pool: each dispatched request ends at once. */
async function drain(flows: Flows, requests: readonly InferenceRequest[]): Promise<Run> {
  const { flowControl } = flows;
  flows.saturation = 1;
  let left = requests.length;
  let done!: () => void;
  const over = new Promise<void>((resolve) => {
    done = resolve;
  });
  const tickets = new Array<Ticket>(requests.length);
  for (const [i, request] of requests.entries())
    tickets[i] = flowControl.enter(request, 1, 0, {
      dispatched() {
        flowControl.ended(tickets[i]!);
        if (--left === 0) done();
      },
      evicted() {},
    }) as Ticket;
  gc();
  flows.saturation = 0;
  const started = realClock.now();
  const cpu = process.cpuUsage();
  flowControl.changed();
  await over;
  const seconds = (realClock.now() - started) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return { dispatches: requests.length / seconds, perCpuSecond: (requests.length * 1e6) / (user + system) };
}

/** The same requests through one array, 64 in each turn of the event loop. */
async function bare(requests: readonly InferenceRequest[]): Promise<number> {
  const queue = requests.map((request) => ({ request, dispatched: () => left-- }));
  let left = queue.length;
  let next = 0;
  const started = realClock.now();
  await new Promise<void>((resolve) => {
    const turn = (): void => {
      for (let i = 0; i < 64 && next < queue.length; i++) queue[next++]!.dispatched();
      if (left === 0) resolve();
      else realClock.soon(turn);
    };
    turn();
  });
  return requests.length / ((realClock.now() - started) / 1000);
}

/** Microseconds from entry to dispatch, with room for every request: p50 and p99. */
function passing(flowControl: FlowControl, requests: readonly InferenceRequest[]) {
  const waiter = { dispatched() {}, evicted() {} };
  const took: number[] = [];
  for (const request of requests) {
    const started = realClock.now();
    const ticket = flowControl.enter(request, 1, 0, waiter) as Ticket;
    took.push((realClock.now() - started) * 1000);
    flowControl.ended(ticket);
  }
  took.sort((a, b) => a - b);
  return { p50: quantile(took, 0.5), p99: quantile(took, 0.99) };
}

const number = (value: number): string => Math.round(value).toLocaleString("en");
process.stdout.write(`${number(queued)} requests queued, the best of ${rounds} rounds\n\n`);
process.stdout.write(
  "policy         flows   dispatches/s   per CPU second   of the bare loop   bytes per queued request\n",
);
for (const [name, policy] of POLICIES)
  for (const count of [1, 1000, 10_000]) {
    const requests = requestsOf(count);
    const bytes = Array.from({ length: 5 }, () => memory(policy(), requests)).sort((a, b) => a - b);
    let best: Run = { dispatches: 0, perCpuSecond: 0 };
    let baseline = 0;
    const flows = flowsOf(policy());
    for (let round = 0; round < rounds; round++) {
      const run = await drain(flows, requests);
      baseline = Math.max(baseline, await bare(requests));
      best = {
        dispatches: Math.max(best.dispatches, run.dispatches),
        perCpuSecond: Math.max(best.perCpuSecond, run.perCpuSecond),
      };
    }
    flows.flowControl.close();
    process.stdout.write(
      `${name.padEnd(13)} ${number(count).padStart(6)} ${number(best.dispatches).padStart(14)} ${number(best.perCpuSecond).padStart(16)} ${(best.dispatches / baseline).toFixed(2).padStart(18)} ${number(quantile(bytes, 0.5)).padStart(26)}\n`,
    );
  }
const requests = requestsOf(1000);
const open = new FlowControl({
  ...{ clock: realClock, settings: flowSettings(() => 0), pool: () => POOL, events: silentEvents() },
});
const passes = Array.from({ length: rounds }, () => passing(open, requests));
const { p50, p99 } = passes.reduce((best, one) => (one.p99 < best.p99 ? one : best));
process.stdout.write(`\nwith room: p50 ${p50.toFixed(2)} us, p99 ${p99.toFixed(2)} us from entry to dispatch\n`);
