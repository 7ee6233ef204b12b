/** Thrown by a probe that knows that waiting is in vain: `poll` ends with it at once. */
export class InVain extends Error {}

/**
 * Waits until `probe` returns something truthy and returns that. A probe that throws counts as "not yet", unless it throws
 * {@link InVain}; its last error is part of the message when the limit is reached.
 * @param limitMs milliseconds
 */
export async function poll<T>(what: string, probe: () => T | Promise<T>, limitMs = 15_000): Promise<NonNullable<T>> {
  const end = performance.now() + limitMs;
  let last: unknown = "never true";
  for (;;) {
    try {
      const value = await probe();
      if (value) return value as NonNullable<T>;
      last = value;
    } catch (error) {
      if (error instanceof InVain) throw error;
      last = error;
    }
    if (performance.now() > end) throw new Error(`${what}: not within ${limitMs} ms; last: ${String(last)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
