/**
 * Calls back for every key that is pressed, when there is a terminal to press it on.
 * @returns what gives the terminal back; undefined without one
 */
export function onKey(callback: (key: string) => void): (() => void) | undefined {
  const input = process.stdin;
  if (!input.isTTY) return undefined;
  const onData = (data: Buffer): void => {
    for (const key of data.toString()) callback(key);
  };
  input.setRawMode(true).resume().on("data", onData);
  return () => {
    input.off("data", onData).setRawMode(false).pause();
  };
}
