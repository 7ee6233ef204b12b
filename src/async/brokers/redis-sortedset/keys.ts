/** Names of what belongs to a queue; `{q}` keeps them on the queue's own slot, should they ever move to a cluster. */
export const claimsKey = (queueName: string): string => `{${queueName}}:claims`;
export const leasesKey = (queueName: string): string => `{${queueName}}:leases`;
/** How far each process has numbered its claims: what tells a store that lost data from a claim that somebody took over. */
export const ownersKey = (queueName: string): string => `{${queueName}}:owners`;
export const deadKey = (queueName: string): string => `${queueName}:dead`;

/** Token of the submission of a request that counts now, until its deadline (async-processor 5.2.2). */
export const ACTIVE_PREFIX = "request-active:";
/** Token of the submission that is to be cancelled, or that has its answer (behind `ANSWERED_PREFIX`). */
export const CANCEL_PREFIX = "request-cancel:";
/**
 * In front of the token in a cancel mark: this submission has its terminal result, although the store may still hold its
 * message. Other processors of the format compare the mark with the bare token, and take it for no mark of theirs.
 */
export const ANSWERED_PREFIX = "answered:";

/**
 * Numbers the keys of one script call, from 1 on.
 * @param keys of the call; the keys of a name are added to it when the name comes for the first time
 * @returns the number of the first key of a name, as an argument of the script
 */
export function keyNumbers(keys: string[], keysOf: (name: string) => readonly string[]): (name: string) => string {
  const numbers = new Map<string, string>();
  return (name) => {
    let number = numbers.get(name);
    if (number === undefined) {
      number = String(keys.length + 1);
      keys.push(...keysOf(name));
      numbers.set(name, number);
    }
    return number;
  };
}
