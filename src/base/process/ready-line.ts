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
