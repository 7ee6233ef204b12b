/** The names in the store. All of them have one hash tag, so that a cluster keeps them on one node. */
export interface PeerKeys {
  /** Of this process in the store. */
  readonly id: string;
  /** The channel of loads. */
  readonly channel: string;
  /** The log of what was placed: a stream. */
  readonly log: string;
  /** The set of the ids of all replicas. */
  readonly members: string;
  /** The newest load of this replica. */
  readonly own: string;
  /** The newest load of a replica. */
  load(id: string): string;
}

/** Every key begins so: for access lists. */
export const KEY_PREFIX = "sluice:peers:";

/**
 * @param name of the replicas that share, without braces
 * @param id random for each process
 */
export function peerKeys(name: string, id: string): PeerKeys {
  const base = `${KEY_PREFIX}{${name}}`;
  const load = (of: string): string => `${base}:load:${of}`;
  return { id, channel: `${base}:loads`, log: `${base}:placed`, members: `${base}:members`, own: load(id), load };
}
