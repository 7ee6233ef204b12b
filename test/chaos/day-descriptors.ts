import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** The open descriptors of a process. */
export interface Descriptors {
  /** Connections to each port of a model server: scrapes, and connections that requests may use again. */
  readonly toServers: ReadonlyMap<number, number>;
  /** All others: files, pipes, watches, listeners, connections of clients and to Redis. */
  readonly others: number;
}

/** Reads the descriptors of a process of this network namespace. @param ports of all model servers */
export function descriptorsOf(pid: number, ports: ReadonlySet<number>): Descriptors {
  const folder = `/proc/${pid}/fd`;
  const remote = remotePorts(readFileSync(`/proc/${pid}/net/tcp`, "utf8"));
  const toServers = new Map<number, number>();
  let others = 0;
  for (const name of readdirSync(folder)) {
    const port = remote.get(/^socket:\[(\d+)\]$/.exec(targetOf(`${folder}/${name}`))?.[1] ?? "");
    if (port !== undefined && ports.has(port)) toServers.set(port, (toServers.get(port) ?? 0) + 1);
    else others++;
  }
  return { toServers, others };
}

/** The port at the other end of each connection, by inode. @param table the text of `/proc/PID/net/tcp` */
export function remotePorts(table: string): ReadonlyMap<string, number> {
  const ports = new Map<string, number>();
  for (const line of table.split("\n")) {
    const [, , remote, , , , , , , inode] = line.trim().split(/\s+/);
    const port = Number.parseInt(remote?.split(":")[1] ?? "", 16);
    if (inode !== undefined && port > 0) ports.set(inode, port);
  }
  return ports;
}

function targetOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    // Closed since the folder was read.
    return "";
  }
}
