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
