import type { Place, RedisAddress } from "./address.ts";

/** The most times that a cluster may send one attempt from node to node. */
const MOST_HOPS = 5;
/** The answer of a node that does not have the key: the place of the node that has it. */
const MOVED = /^MOVED \d+ (.*):(\d+)$/;

/** Whether an error is the answer of a cluster's node that does not have the key. */
export function isMoved(problem: string): boolean {
  return MOVED.test(problem);
}

/** Where the next attempt to connect goes. */
export class Whereabouts {
  /** The server of the URL, the node of a cluster, or what a Sentinel said. */
  place: Place;
  readonly #seeds: readonly Place[];
  #seed = 0;
  #hops = 0;

  /** @param cluster the places of the address are nodes of a cluster, if they are no Sentinels */
  constructor({ host, port, others }: RedisAddress, cluster: boolean) {
    this.place = { host, port };
    this.#seeds = cluster ? [this.place, ...others] : [this.place];
  }

  /** A connection is ready. */
  settled(): void {
    this.#hops = 0;
  }

  /**
   * An attempt failed, or a connection broke. True: the cluster names another node, so the next attempt may go there at once. False:
   * it goes to the next place of the URL, because any node knows where the key is once the node that had it is gone.
   */
  follow(problem: string): boolean {
    const [, host, port] = MOVED.exec(problem) ?? [];
    if (port === undefined || this.#hops >= MOST_HOPS) {
      this.#hops = 0;
      this.place = this.#seeds[this.#seed++ % this.#seeds.length]!;
      return false;
    }
    this.#hops++;
    // An empty host is that of the node that answers.
    this.place = { host: host!.replace(/^\[(.*)\]$/, "$1") || this.place.host, port: Number(port) };
    return true;
  }
}
