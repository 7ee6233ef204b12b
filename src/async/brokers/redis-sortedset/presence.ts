import { createHash } from "node:crypto";

const PREFIX = "sluice-dispatch:";
/** In place of digests: more queues than a name lists. */
const ANY = "*";
/** Most queues that a name lists. */
const MOST = 200;

/**
 * The name of a dispatcher's connection, from which `CLIENT LIST` tells the queues that it serves: short digests, because a queue
 * may have any name and a connection may not.
 */
export function dispatcherName(queueNames: readonly string[]): string {
  return PREFIX + (queueNames.length > MOST ? ANY : queueNames.map(digest).join(","));
}

/**
 * Counts the connections of dispatchers that serve a queue.
 * @param list answer of `CLIENT LIST`: one connection a line, members `key=value`
 * @param database number that the queue is in
 */
export function dispatchersIn(list: string, database: number, queueName: string): number {
  const wanted = digest(queueName);
  return list.split("\n").filter((line) => {
    const members = new Map(line.split(" ").map((member) => member.split("=", 2) as [string, string]));
    const name = members.get("name") ?? "";
    if (!name.startsWith(PREFIX) || members.get("db") !== String(database)) return false;
    const served = name.slice(PREFIX.length);
    return served === ANY || served.split(",").includes(wanted);
  }).length;
}

function digest(queueName: string): string {
  return createHash("sha1").update(queueName).digest("hex").slice(0, 10);
}
