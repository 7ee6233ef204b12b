import type { Clock } from "../../base/clock/clock.ts";
import { hostPort, type PodSnapshot, type PoolMembership, samePod } from "../../base/inference/endpoint.ts";
import { type EndpointSpec, endpointId } from "../endpoints/pool-endpoint.ts";
import type { EndpointRegistry } from "../endpoints/registry.ts";
import type { ObjectKey, ReflectedSink } from "../kubernetes/reflected.ts";
import { membersOf } from "./pod.ts";

/**
 * Milliseconds of work on many changed pods, after which other work gets a turn: requests are decided in the same thread
 * (`bench/kubernetes.ts` measures it).
 */
const SLICE = 2;

interface PoolMembersOptions {
  readonly endpoints: EndpointRegistry;
  readonly clock: Clock;
  /** Two pods claim to serve at `address`: `owner` now does. */
  readonly onShared?: (address: string, owner: PodSnapshot, other: PodSnapshot) => void;
}

/** A pod that serves, or would serve if no other pod claimed its addresses. */
interface Serving {
  readonly pod: PodSnapshot;
  readonly specs: readonly EndpointSpec[];
}

/** Keeps the endpoints equal to those of the pool's pods: a pure function of the pool and the last known pods. */
export class PoolMembers implements ReflectedSink<PodSnapshot> {
  readonly #endpoints: EndpointRegistry;
  readonly #clock: Clock;
  readonly #onShared: NonNullable<PoolMembersOptions["onShared"]>;
  readonly #pods = new Map<string, PodSnapshot>();
  readonly #serving = new Map<string, Serving>();
  readonly #claims = new AddressClaims();
  /** Pods with endpoints that found no room. */
  readonly #short = new Set<string>();
  /** Pods that have changed and whose endpoints have not yet, in the order in which they will change. */
  readonly #unsettled = new Set<string>();
  #continuing = false;
  #pool: PoolMembership | undefined;

  constructor({ endpoints, clock, onShared = () => {} }: PoolMembersOptions) {
    this.#endpoints = endpoints;
    this.#clock = clock;
    this.#onShared = onShared;
  }

  /** The endpoints are those of the last known pods. False only for a moment after very many pods have changed. */
  get settled(): boolean {
    return this.#unsettled.size === 0;
  }

  /** The pool has another selector or other ports, or is gone: without a pool there are no endpoints. */
  usePool(pool: PoolMembership | undefined): void {
    this.#pool = pool;
    for (const key of this.#pods.keys()) this.#unsettled.add(key);
    this.#settleSome(pool === undefined ? Number.POSITIVE_INFINITY : SLICE);
  }

  replace(pods: readonly PodSnapshot[]): void {
    const before = this.#pods.size;
    const changed: string[] = [];
    let known = 0;
    for (const pod of pods) {
      const key = keyOf(pod);
      if (this.#pods.has(key)) known++;
      if (this.#takes(key, pod)) changed.push(key);
    }
    // First, requests must no longer go to pods that are gone.
    if (known < before) this.#dropAllBut(pods);
    for (const key of changed) this.#unsettled.add(key);
    this.#settleSome(SLICE);
  }

  put(pod: PodSnapshot): void {
    const key = keyOf(pod);
    // Most changes of pods do not concern endpoints.
    if (!this.#takes(key, pod)) return;
    this.#settle(key);
    this.#useRoom();
  }

  remove(key: ObjectKey): void {
    this.#pods.delete(keyOf(key));
    this.#settle(keyOf(key));
    this.#useRoom();
  }

  /** Leaves the endpoints as they are. */
  close(): void {
    this.#unsettled.clear();
  }

  /** @returns whether the snapshot differs from the known one */
  #takes(key: string, pod: PodSnapshot): boolean {
    const known = this.#pods.get(key);
    if (known !== undefined && samePod(known, pod)) return false;
    this.#pods.set(key, pod);
    return true;
  }

  #dropAllBut(pods: readonly PodSnapshot[]): void {
    const gone = new Set(this.#pods.keys());
    for (const pod of pods) gone.delete(keyOf(pod));
    for (const key of gone) {
      this.#pods.delete(key);
      this.#unsettled.add(key);
    }
  }

  #settleSome(slice: number): void {
    const until = this.#clock.now() + slice;
    for (const key of this.#unsettled) {
      this.#settle(key);
      if (this.#clock.now() >= until) break;
    }
    if (this.settled) this.#useRoom();
    else if (!this.#continuing) {
      this.#continuing = true;
      this.#clock.soon(() => {
        this.#continuing = false;
        this.#settleSome(SLICE);
      });
    }
  }

  /** Corrects the endpoints of one pod, and those of pods that claim the same addresses. */
  #settle(key: string): void {
    this.#unsettled.delete(key);
    this.#short.delete(key);
    const before = this.#serving.get(key);
    const pod = this.#pods.get(key);
    const specs = pod === undefined || this.#pool === undefined ? [] : membersOf(this.#pool, [pod]);
    const concerned: PodSnapshot[] = [];
    for (const spec of before?.specs ?? []) {
      const heir = this.#claims.release(addressOf(spec), before!.pod);
      if (heir !== undefined) concerned.push(heir);
      // Another pod of the same name is another server: data about the old one does not apply to it.
      if (pod?.uid !== before!.pod.uid || !specs.some(({ name }) => name === spec.name))
        this.#endpoints.remove(endpointId(spec));
    }
    this.#serving.delete(key);
    if (pod !== undefined && specs.length > 0) {
      this.#serving.set(key, { pod, specs });
      concerned.push(pod);
      for (const spec of specs) this.#claim(addressOf(spec), pod, concerned);
    }
    for (const each of concerned) this.#withdraw(each);
    for (const each of concerned) this.#place(each);
  }

  #claim(address: string, pod: PodSnapshot, concerned: PodSnapshot[]): void {
    const loser = this.#claims.claim(address, pod);
    if (loser !== undefined) concerned.push(loser);
    const owner = this.#claims.owner(address)!;
    if (loser !== undefined) this.#onShared(address, pod, loser);
    else if (owner !== pod) this.#onShared(address, owner, pod);
  }

  /** Removes those of its endpoints whose address now belongs to another pod. */
  #withdraw(pod: PodSnapshot): void {
    for (const spec of this.#specsOf(pod))
      if (this.#claims.owner(addressOf(spec)) !== pod) this.#endpoints.remove(endpointId(spec));
  }

  #place(pod: PodSnapshot): void {
    for (const spec of this.#specsOf(pod))
      if (this.#claims.owner(addressOf(spec)) === pod && this.#endpoints.upsert(spec) === undefined)
        this.#short.add(keyOf(pod));
  }

  #specsOf(pod: PodSnapshot): readonly EndpointSpec[] {
    return this.#serving.get(keyOf(pod))?.specs ?? [];
  }

  /** A pod that found no room is ready and will not change. So it gets its endpoints when others leave. */
  #useRoom(): void {
    const endpoints = this.#endpoints;
    for (const key of this.#short) {
      if (endpoints.size >= endpoints.maxEndpoints) return;
      this.#short.delete(key);
      const serving = this.#serving.get(key);
      if (serving !== undefined) this.#place(serving.pod);
    }
  }
}

function keyOf({ namespace, name }: ObjectKey): string {
  return `${namespace}/${name}`;
}

function addressOf({ address, port }: EndpointSpec): string {
  return hostPort(address, port);
}

/**
 * Which pod owns an address and port. An IP is given out again as soon as a pod has ended, which the API server may not know
 * yet. Of two pods that claim to serve there, the one that started later owns it. The other one gets it when that pod leaves.
 * Keyed by port as well, because pods in the network of their node share its address on purpose.
 */
class AddressClaims {
  readonly #owners = new Map<string, PodSnapshot>();
  /** Pods that claim an address of another pod; most often empty. */
  readonly #others = new Map<string, PodSnapshot[]>();

  /** @param address `host:port` @returns the owner until now, when `pod` takes the address from it */
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

  /** @returns the new owner, when `pod` owned the address and another pod claims it, too */
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

  /** Number of claimed addresses. */
  get size(): number {
    return this.#owners.size;
  }

  #wait(address: string, pod: PodSnapshot): void {
    const others = this.#others.get(address);
    if (others === undefined) this.#others.set(address, [pod]);
    else others.push(pod);
  }

  /** Removes one pod from `others`; the rest keeps waiting. */
  #keep(address: string, others: readonly PodSnapshot[], gone: PodSnapshot): void {
    const left = others.filter((each) => each !== gone);
    if (left.length === 0) this.#others.delete(address);
    else this.#others.set(address, left);
  }
}

/** Every replica must reach the same result: where times are equal the unique id decides. */
function startedLater(a: PodSnapshot, b: PodSnapshot): boolean {
  return a.since === b.since ? a.uid > b.uid : a.since > b.since;
}
