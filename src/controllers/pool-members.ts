import { membersOf } from "../endpoints/membership.ts";
import type { EndpointRegistry } from "../endpoints/registry.ts";
import type { PodSnapshot, PoolMembership } from "../inference/pod-snapshot.ts";
import type { ObjectKey, ReflectedSink } from "../kubernetes/reflected.ts";

/** Keeps the endpoints those of the pool's pods: a pure function of the pool and the pods last told of. */
export class PoolMembers implements ReflectedSink<PodSnapshot> {
  readonly #endpoints: EndpointRegistry;
  readonly #pods = new Map<string, PodSnapshot>();
  /** Names of a pod's endpoints, by pod. */
  readonly #members = new Map<string, readonly string[]>();
  /** Pods of which not every endpoint found room. */
  readonly #short = new Set<string>();
  #pool: PoolMembership | undefined;

  constructor(endpoints: EndpointRegistry) {
    this.#endpoints = endpoints;
  }

  /** The pool has another selector or other ports, or is no more: then it has no endpoints. */
  usePool(pool: PoolMembership | undefined): void {
    this.#pool = pool;
    this.#applyAll();
  }

  replace(pods: readonly PodSnapshot[]): void {
    for (const pod of pods) this.#forgetNamesake(pod);
    this.#pods.clear();
    for (const pod of pods) this.#pods.set(keyOf(pod), pod);
    this.#applyAll();
  }

  put(pod: PodSnapshot): void {
    const key = keyOf(pod);
    this.#forgetNamesake(pod);
    this.#pods.set(key, pod);
    this.#upsert(key, pod);
    this.#useRoom();
  }

  remove(key: ObjectKey): void {
    this.#pods.delete(keyOf(key));
    this.#removeOthers(keyOf(key), []);
    this.#useRoom();
  }

  #upsert(key: string, pod: PodSnapshot): void {
    if (this.#pool === undefined) return;
    const specs = membersOf(this.#pool, [pod]);
    const names = specs.map(({ name }) => `${pod.namespace}/${name}`);
    this.#removeOthers(key, names);
    if (names.length > 0) this.#members.set(key, names);
    for (const spec of specs) if (this.#endpoints.upsert(spec) === undefined) this.#short.add(key);
  }

  /** A pod that found no room is ready and has nothing more to tell: it is thought of when others go. */
  #useRoom(): void {
    const endpoints = this.#endpoints;
    if (this.#short.size === 0 || endpoints.size >= endpoints.maxEndpoints) return;
    for (const key of [...this.#short]) {
      if (endpoints.size >= endpoints.maxEndpoints) return;
      this.#short.delete(key);
      const pod = this.#pods.get(key);
      if (pod !== undefined) this.#upsert(key, pod);
    }
  }

  /** Another pod of the same name is another server: what was learnt of the old one does not hold for it. */
  #forgetNamesake(pod: PodSnapshot): void {
    const key = keyOf(pod);
    const known = this.#pods.get(key);
    if (known !== undefined && known.uid !== pod.uid) this.#removeOthers(key, []);
  }

  /** Lets go of the endpoints of a pod that are not among `names`. */
  #removeOthers(pod: string, names: readonly string[]): void {
    for (const id of this.#members.get(pod) ?? []) if (!names.includes(id)) this.#endpoints.remove(id);
    this.#members.delete(pod);
    this.#short.delete(pod);
  }

  #applyAll(): void {
    this.#members.clear();
    this.#short.clear();
    const specs = [];
    if (this.#pool !== undefined)
      for (const pod of this.#pods.values()) {
        const members = membersOf(this.#pool, [pod]);
        if (members.length === 0) continue;
        specs.push(...members);
        this.#members.set(
          keyOf(pod),
          members.map(({ name }) => `${pod.namespace}/${name}`),
        );
      }
    if (this.#endpoints.apply(specs).refused === 0) return;
    for (const [pod, names] of this.#members)
      if (names.some((id) => this.#endpoints.get(id) === undefined)) this.#short.add(pod);
  }
}

function keyOf({ namespace, name }: ObjectKey): string {
  return `${namespace}/${name}`;
}
