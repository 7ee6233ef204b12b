/** Names of what belongs to a queue; `{q}` keeps them on the queue's own slot, should they ever move to a cluster. */
export const claimsKey = (queueName: string): string => `{${queueName}}:claims`;
export const leasesKey = (queueName: string): string => `{${queueName}}:leases`;
export const deadKey = (queueName: string): string => `${queueName}:dead`;

/** Token of the submission of a request that counts now, until its deadline (async-processor 5.2.2). */
export const ACTIVE_PREFIX = "request-active:";
/** Token of the submission that is to be cancelled. */
export const CANCEL_PREFIX = "request-cancel:";
