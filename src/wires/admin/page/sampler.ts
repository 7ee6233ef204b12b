import type { Clock, Timer } from "../../../base/clock/clock.ts";
import type { InferenceCore } from "../../../picker/core/inference-core.ts";
import { ReplicaWatch } from "../../../picker/core/watch/replica-watch.ts";
import { GAUGE } from "../../../picker/core/watch/traffic-watch.ts";

/**
 * Runs a function once a second, a moment after the second began.
 * @param wall the present time in Unix milliseconds, by which seconds begin
 * @param tick receives how late its timer ran, in milliseconds, and the share of one core that the process took since the last one
 * @param failed gets what `tick` throws; the next second comes all the same
 * @returns a function that ends this
 */
export function everySecond(
  clock: Clock,
  wall: () => number,
  tick: (load: { readonly lag: number; readonly cpu: number }) => void,
  failed: (error: unknown) => void,
): () => void {
  let timer: Timer | undefined;
  let usage = process.cpuUsage();
  let at = clock.now();
  const plan = (): void => {
    const wait = 1000 - (wall() % 1000) + 2;
    const due = clock.now() + wait;
    timer = clock.after(
      wait,
      () => {
        const now = clock.now();
        const spent = process.cpuUsage(usage);
        const took = now - at;
        usage = process.cpuUsage();
        at = now;
        const cpu = took > 0 ? (spent.user + spent.system) / 1000 / took : Number.NaN;
        try {
          tick({ lag: Math.max(0, now - due), cpu });
        } catch (error) {
          failed(error);
        } finally {
          plan();
        }
      },
      true,
    );
  };
  plan();
  return () => timer?.cancel();
}

/** Measures once a second what no event tells: saturation, requests in flight and waiting, states, the process itself. */
export function sampleCore(core: InferenceCore): () => void {
  const { watch, endpoints, clock, peers } = core;
  const replicas = new ReplicaWatch(watch.events);
  return everySecond(
    clock,
    () => watch.wallOf(clock.now()),
    ({ lag, cpu }) => {
      watch.align();
      const second = watch.second();
      const { ring } = watch;
      ring.advance(second);
      watch.endpoints.advance(second);
      ring.set(GAUGE.saturation, saturationOf(core));
      ring.set(GAUGE.inFlight, core.inFlight);
      const { backlog } = core;
      if (backlog !== undefined) ring.set(GAUGE.waiting, backlog.figures().requests);
      const states = { up: 0, blind: 0, down: 0 };
      for (const { state } of endpoints.list()) states[state]++;
      for (const state of ["up", "blind", "down"] as const) ring.set(GAUGE[state], states[state]);
      if (peers !== undefined) replicas.look(peers);
      ring.set(GAUGE.cpu, cpu);
      ring.set(GAUGE.lag, lag);
    },
    (error) => core.onError(error),
  );
}

/** NaN when the detector fails: the log has its error. */
function saturationOf(core: InferenceCore): number {
  try {
    return core.saturation().value;
  } catch {
    return Number.NaN;
  }
}
