import type { PodSnapshot } from "../../base/inference/endpoint.ts";

/**
 * Whose an address and port is. An IP is given out again as soon as a pod has ended, which the API server may not know yet:
 * of two pods that say they serve there the one that started later does, and the other one is asked for again should that
 * one leave. Keyed by port as well: pods in the network of their node share its address on purpose.
 */
export class AddressClaims {
  readonly #owners = new Map<string, PodSnapshot>();
  /** Who claims what is another's; hardly ever anybody. */
  readonly #others = new Map<string, PodSnapshot[]>();

  /** @param address `host:port` @returns whose it was until now, where `pod` takes it from another one */
  claim(address: string, pod: PodSnapshot): PodSnapshot | undefined {
    const owner = this.#owners.get(address);
    if (owner === pod) return undefined;
    if (owner !== undefined && startedLater(owner, pod)) {
      this.#wait(address, pod);
      return undefined;
    }
    this.#owners.set(address, pod);
    if (owner !== undefined) this.#wait(address, owner);
    return owner;
  }

  /** @returns whose it is from now on, where it was that of `pod` and another one claims it, too */
  release(address: string, pod: PodSnapshot): PodSnapshot | undefined {
    const others = this.#others.get(address);
    if (this.#owners.get(address) !== pod) {
      if (others !== undefined) this.#keep(address, others, pod);
      return undefined;
    }
    const next = others?.reduce((best, each) => (startedLater(each, best) ? each : best));
    if (others === undefined || next === undefined) {
      this.#owners.delete(address);
      return undefined;
    }
    this.#owners.set(address, next);
    this.#keep(address, others, next);
    return next;
  }

  owner(address: string): PodSnapshot | undefined {
    return this.#owners.get(address);
  }

  /** Addresses that somebody claims. */
  get size(): number {
    return this.#owners.size;
  }

  #wait(address: string, pod: PodSnapshot): void {
    const others = this.#others.get(address);
    if (others === undefined) this.#others.set(address, [pod]);
    else others.push(pod);
  }

  /** Those of `others` but one go on waiting. */
  #keep(address: string, others: readonly PodSnapshot[], gone: PodSnapshot): void {
    const left = others.filter((each) => each !== gone);
    if (left.length === 0) this.#others.delete(address);
    else this.#others.set(address, left);
  }
}

/** Every replica must come to the same answer: where times are equal the unique id decides. */
function startedLater(a: PodSnapshot, b: PodSnapshot): boolean {
  return a.since === b.since ? a.uid > b.uid : a.since > b.since;
}
