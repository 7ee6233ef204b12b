/**
 * Writes to standard output and waits until the text is taken. When the reader has gone, the process ends, like a program that
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

/** Writes a text for the user to standard error. */
export function tell(text: string): void {
  process.stderr.write(`sluice: ${text}\n`);
}
