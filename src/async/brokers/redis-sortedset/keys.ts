/** Names of the keys of a queue; `{q}` keeps them on the queue's own slot, for a move to a cluster. */
export const claimsKey = (queueName: string): string => `{${queueName}}:claims`;
export const leasesKey = (queueName: string): string => `{${queueName}}:leases`;
/** The highest claim number of each process: it tells a store that lost data from a claim that another process took over. */
export const ownersKey = (queueName: string): string => `{${queueName}}:owners`;
/** Where llm-d-async keeps what it claimed, after v0.9.0: the entries, the owners, the ends of the leases in Unix seconds. */
export const llmdKeys = (queueName: string): readonly string[] =>
  ["claimed", "claim-owners", "claims-idx"].map((name) => `${queueName}:${name}`);
export const deadKey = (queueName: string): string => `${queueName}:dead`;

/** Token of a request's current submission, until its deadline (async-processor 5.2.2). */
export const ACTIVE_PREFIX = "request-active:";
/** Token of the submission that is to be cancelled, or that has its answer (behind `ANSWERED_PREFIX`). */
export const CANCEL_PREFIX = "request-cancel:";
/**
 * In front of the token in a cancel mark: this submission has its terminal result, although the store may still hold its
 * message. Other processors of the format compare the mark with the bare token, so for them it is no mark.
 */
export const ANSWERED_PREFIX = "answered:";

/**
 * Numbers the keys of one script call, from 1.
 * @param keys of the call; the first use of a name adds its keys
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
