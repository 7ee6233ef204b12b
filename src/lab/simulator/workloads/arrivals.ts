import type { WorkloadPort } from "./workload.ts";

/**
 * Poisson arrivals: the gaps between them are exponential and independent. Each gap is drawn from `port.random` after all draws
 * of the arrival before it. Only the next arrival has a timer.
 * @param rate per second on average, > 0
 * @param untilMs virtual time; all arrivals are before it
 */
export function poissonArrivals(port: WorkloadPort, rate: number, untilMs: number, arrive: () => void): void {
  const { clock, random } = port;
  let at = clock.now();
  const arm = (): void => {
    at += (-Math.log(1 - random.next()) * 1000) / rate;
    if (at >= untilMs) return;
    clock.after(at - clock.now(), () => {
      arrive();
      arm();
    });
  };
  arm();
}

/**
 * A number of arrivals at uniformly random times within a window, in ascending order and without a list of them. The least of n
 * uniform draws is distributed as 1 - u^(1/n). Drawn from `port.random` as with `poissonArrivals`.
 * @param count >= 0
 * @param fromMs virtual time, not before now
 * @param widthMs of the window, >= 0
 */
export function waveArrivals(
  port: WorkloadPort,
  count: number,
  fromMs: number,
  widthMs: number,
  arrive: () => void,
): void {
  const { clock, random } = port;
  const end = fromMs + widthMs;
  let at = fromMs;
  let left = count;
  const arm = (): void => {
    if (left === 0) return;
    at += (end - at) * (1 - random.next() ** (1 / left--));
    clock.after(at - clock.now(), () => {
      arrive();
      arm();
    });
  };
  arm();
}
