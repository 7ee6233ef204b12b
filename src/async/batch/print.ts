/**
 * Writes to standard output and waits until it is taken. When nobody reads any more the process ends, as a program does that
 * a broken pipe kills.
 */
export function print(text: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => {
      if (!error) resolve();
      else if ((error as NodeJS.ErrnoException).code === "EPIPE") process.exit(128 + 13);
      else reject(error);
    });
  });
}

/** Tells a person something, on standard error. */
export function tell(text: string): void {
  process.stderr.write(`sluice: ${text}\n`);
}
