import type { WorkloadPort } from "./workload.ts";

/**
 * Poisson arrivals: the gaps between them are exponential and independent, drawn from `port.random` one at a time, each
 * behind whatever the arrival before it drew. Only the next one is armed.
 * @param rate per second on average, > 0
 * @param untilMs virtual time behind the last of them
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
