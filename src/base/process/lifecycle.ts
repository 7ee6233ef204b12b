import type { Clock, Timer } from "../clock/clock.ts";
import type { Logger } from "../telemetry/logging.ts";

/** A process made of parts that run. */
export interface Running {
  /** Takes no new work, lets running work end within the drain window, then ends. */
  drain(): Promise<void>;
  /** Ends now. */
  close(): Promise<void>;
}

/** Milliseconds after the drain window in which running work may still end. */
const HARD_STOP = 30_000;

/** Milliseconds before the hard stop in which waiting work still gets an answer. */
const LAST_CALL = 5_000;

/**
 * Resolves when `drained` does, or after 30 s: work that never ends must not keep the process (epp-protocol 15.4).
 * @param lastCall called 5 s before that, to refuse what waits
 */
export async function untilHardStop(clock: Clock, drained: Promise<void>, lastCall?: () => void): Promise<void> {
  const timers: Timer[] = [];
  if (lastCall !== undefined) timers.push(clock.after(HARD_STOP - LAST_CALL, lastCall, true));
  const stop = new Promise<void>((resolve) => timers.push(clock.after(HARD_STOP, resolve, true)));
  await Promise.race([drained, stop]);
  for (const timer of timers) timer.cancel();
}

/**
 * Waits for SIGTERM or SIGINT, drains, and returns the exit status. A second signal ends the process at once with 1. A process
 * that is still starting has no work: it ends at once with 0. The process handles signals from its start, because process 1 has
 * no default handlers and a container could not be stopped without them. Source: epp-protocol 15.4.
 * @param running the parts of the process, or their promise; when it rejects, the wait ends
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
      // The caller that started the promise handles the error.
      () => {},
    );
  });
}

/** Exit status of a program that a signal has ended. */
const STATUS: Readonly<Record<string, number>> = { SIGINT: 130, SIGTERM: 143 };

/**
 * Runs `work` until it ends or a signal arrives. The first SIGINT or SIGTERM aborts the signal of `work`, the second ends the
 * process at once.
 * @param onInterrupt is called after `work` has ended because of a signal
 * @returns the result of `work`, or the exit status for the signal
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

/** The address of one part of a process. */
export interface Listening {
  readonly name: string;
  /** `host:port`, IPv6 in brackets. */
  readonly address: string;
}

/** The line that says to a person or a script that a part is ready. */
export function readyLine(listening: Listening, pid: number): string {
  return `listening name=${listening.name} address=${listening.address} pid=${pid}`;
}

/** Reads a line of `readyLine`; undefined for any other line. */
export function parseReadyLine(line: string): (Listening & { readonly pid: number }) | undefined {
  const match = /^listening name=(\S+) address=(\S+) pid=(\d+)$/.exec(line.trim());
  return match === null ? undefined : { name: match[1]!, address: match[2]!, pid: Number(match[3]) };
}
