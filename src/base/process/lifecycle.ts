import type { Clock } from "../clock/clock.ts";
import type { Logger } from "../telemetry/logging.ts";

/** A process made of parts that run. */
export interface Running {
  /** Stops taking work in, lets what runs end within the drain window, then ends. */
  drain(): Promise<void>;
  /** Ends now. */
  close(): Promise<void>;
}

/** Milliseconds that what still runs after the drain window gets to end by itself. */
const HARD_STOP = 30_000;

/** Resolves when `drained` does, or after 30 s: what never ends must not keep the process (epp-protocol 15.4). */
export function untilHardStop(clock: Clock, drained: Promise<void>): Promise<void> {
  return Promise.race([drained, new Promise<void>((resolve) => void clock.after(HARD_STOP, resolve, true))]);
}

/**
 * Waits for SIGTERM or SIGINT, drains, and returns the exit status; a second signal ends the process at once with 1. A
 * process that is still starting has taken nothing in: it ends at once with 0. Handling signals from the beginning is what
 * lets a container be stopped then, since process 1 has no default for them. Source: epp-protocol 15.4.
 * @param running what runs, or will; when it fails to start, nothing is waited for any more
 */
export function untilSignal(running: Running | Promise<Running>, log: Logger): Promise<number> {
  return new Promise((resolve) => {
    let started: Running | undefined;
    let draining = false;
    const onSignal = (signal: NodeJS.Signals): void => {
      if (draining) process.exit(1);
      draining = true;
      if (started === undefined) {
        log.info({ signal }, "ended by a signal while starting");
        process.exit(0);
      }
      log.info({ signal }, "draining; a second signal ends the process at once");
      started.drain().then(
        () => resolve(0),
        (error: unknown) => {
          log.error({ err: error }, "draining failed");
          resolve(1);
        },
      );
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
    Promise.resolve(running).then(
      (value) => {
        started = value;
      },
      // Whoever started it has the error.
      () => {},
    );
  });
}

/** Exit status of a program that a signal has ended. */
const STATUS: Readonly<Record<string, number>> = { SIGINT: 130, SIGTERM: 143 };

/**
 * Runs `work` until it ends or the process is told to: the first SIGINT or SIGTERM aborts its signal, the second ends the
 * process at once.
 * @param onInterrupt is called after `work` has ended because of it
 * @returns what `work` returns, or the status that says which signal it was
 */
export async function interruptible(
  work: (signal: AbortSignal) => Promise<number>,
  onInterrupt: () => void = () => {},
): Promise<number> {
  const abort = new AbortController();
  const onSignal = (name: NodeJS.Signals): void => {
    if (abort.signal.aborted) process.exit(STATUS[name]);
    abort.abort(name);
  };
  for (const name of Object.keys(STATUS)) process.on(name, onSignal);
  try {
    return await work(abort.signal);
  } catch (error) {
    if (!abort.signal.aborted || error !== abort.signal.reason) throw error;
    onInterrupt();
    return STATUS[abort.signal.reason as string]!;
  } finally {
    for (const name of Object.keys(STATUS)) process.off(name, onSignal);
  }
}

/** Where a part of a process can be reached. */
export interface Listening {
  readonly name: string;
  /** `host:port`, IPv6 in brackets. */
  readonly address: string;
}

/** The line that tells a person or a script that a part is ready. */
export function readyLine(listening: Listening, pid: number): string {
  return `listening name=${listening.name} address=${listening.address} pid=${pid}`;
}

/** Reads what `readyLine` wrote; undefined for any other line. */
export function parseReadyLine(line: string): (Listening & { readonly pid: number }) | undefined {
  const match = /^listening name=(\S+) address=(\S+) pid=(\d+)$/.exec(line.trim());
  return match === null ? undefined : { name: match[1]!, address: match[2]!, pid: Number(match[3]) };
}
