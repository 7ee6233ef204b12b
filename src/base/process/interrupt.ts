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
