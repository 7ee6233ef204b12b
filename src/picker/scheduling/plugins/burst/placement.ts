import type { BlockHashes } from "../../../prefix/block-hash.ts";

/** The most comparisons of a block with a replica in one window, which is placed in one go. What is above goes by load. */
const MAX_COMPARISONS = 2 ** 17;

/** A request of one window. */
export interface Placed {
  readonly hashes: BlockHashes;
  /** Index of its replica; undefined = it goes anywhere. */
  replica: number | undefined;
}

/** The way of placing (scheduling 3.10.5). */
export interface PlacementSettings {
  /** The most requests of one group for each replica; Infinity = no limit. */
  readonly maxPerReplica: number;
  /** Leading blocks that different prompts must share to be placed together; 0 = only equal prompts are placed. */
  readonly minColocateBlocks: number;
  readonly balanceBy: "requests" | "tokens";
}

/** A replica, as the placement sees it. */
export interface Replica {
  readonly name: string;
  /** Requests that it runs; NaN = unknown. */
  readonly running: number;
}

/** Requests with equal prompts, or a single one. */
interface Unit {
  readonly members: readonly Placed[];
  readonly hashes: BlockHashes;
}

/**
 * Chooses replicas for the requests of one window, so that a prompt which several of them share is computed once. Equal prompts
 * are placed first, then those that share `minColocateBlocks` leading blocks with another one; within each kind longer prompts
 * come first. A unit prefers the replica that holds most of its prefix, as long as that replica has less than its fair share.
 * Otherwise it goes to the replica with the least load. A request that shares nothing with another one is not placed.
 */
export function place(requests: readonly Placed[], replicas: readonly Replica[], settings: PlacementSettings): void {
  if (replicas.length === 0) return;
  const units = unitsOf(requests);
  const groups = units.filter(({ members }) => members.length > 1);
  const singles = singlesWithCompany(units, settings.minColocateBlocks);
  const longestFirst = (a: Unit, b: Unit): number => b.hashes.count - a.hashes.count;
  const order = [...groups.sort(longestFirst), ...singles.sort(longestFirst)];
  const cost = ({ members, hashes }: Unit): number => (settings.balanceBy === "tokens" ? hashes.count : members.length);
  const total = order.reduce((sum, unit) => sum + cost(unit), 0);
  const window = new Window(replicas, settings, Math.ceil(total / replicas.length));
  for (const unit of order) window.put(unit);
}

function unitsOf(requests: readonly Placed[]): readonly Unit[] {
  const units = new Map<string, { members: Placed[]; hashes: BlockHashes }>();
  for (const request of requests) {
    const { hashes } = request;
    if (hashes.count === 0) continue;
    const key = prefixKey(hashes, hashes.count);
    const unit = units.get(key);
    if (unit === undefined) units.set(key, { members: [request], hashes });
    else unit.members.push(request);
  }
  return [...units.values()];
}

/** The single requests that share their first blocks with another unit. */
function singlesWithCompany(units: readonly Unit[], blocks: number): Unit[] {
  if (blocks === 0) return [];
  const long = units.filter(({ hashes }) => hashes.count >= blocks);
  const sharing = new Map<string, number>();
  for (const { members, hashes } of long) {
    const key = prefixKey(hashes, blocks);
    sharing.set(key, (sharing.get(key) ?? 0) + members.length);
  }
  return long.filter(({ members, hashes }) => members.length === 1 && sharing.get(prefixKey(hashes, blocks))! > 1);
}

/** Equal for requests whose first `blocks` blocks are equal: a hash depends on all blocks before it in its prompt. */
function prefixKey({ low, high, ends, prompts }: BlockHashes, blocks: number): string {
  let key = String(blocks);
  for (let prompt = 0; prompt < prompts; prompt++) {
    const last = Math.min(ends[prompt]!, blocks) - 1;
    key += ` ${last}:${low[last]}:${high[last]}`;
    if (ends[prompt]! >= blocks) break;
  }
  return key;
}

/** 53 bits of a hash, in one number. */
function keyOf(low: number, high: number): number {
  return (high & 0x1fffff) * 2 ** 32 + (low >>> 0);
}

/** The placements of one window so far. */
class Window {
  readonly #replicas: readonly Replica[];
  readonly #settings: PlacementSettings;
  readonly #fairShare: number;
  /** By replica, in requests or blocks. */
  readonly #load: Float64Array;
  /** The replicas that hold each block. */
  readonly #holders = new Map<number, Set<number>>();
  /** Comparisons that are left. */
  #left: number;

  constructor(replicas: readonly Replica[], settings: PlacementSettings, fairShare: number) {
    this.#replicas = replicas;
    this.#settings = settings;
    this.#fairShare = fairShare;
    this.#load = new Float64Array(replicas.length);
    const { minColocateBlocks, balanceBy } = settings;
    // Where neither the replica nor its load depends on blocks, nobody needs to know them.
    this.#left = minColocateBlocks > 0 || balanceBy === "tokens" ? MAX_COMPARISONS : 0;
  }

  put({ members, hashes }: Unit): void {
    const { maxPerReplica, minColocateBlocks, balanceBy } = this.#settings;
    const held = this.#held(hashes);
    const placed = new Map<number, number>();
    let next = 0;
    while (next < members.length) {
      // Only the first replica of a unit is chosen by prefix: the others take what does not fit there.
      const isFirst = next === 0;
      const replica = (isFirst && minColocateBlocks > 0 ? this.#nearest(held) : undefined) ?? this.#idlest(placed);
      const already = placed.get(replica) ?? 0;
      const run = Math.min(members.length - next, Math.max(1, maxPerReplica - already));
      for (let i = 0; i < run; i++) members[next + i]!.replica = replica;
      if (balanceBy === "requests") this.#load[replica]! += run;
      else if (already === 0) this.#load[replica]! += Math.max(0, hashes.count - (held.get(replica) ?? 0));
      placed.set(replica, already + run);
      next += run;
    }
    for (const replica of placed.keys()) this.#hold(hashes, replica);
  }

  /** Leading blocks that each replica holds. */
  #held({ low, high, count }: BlockHashes): ReadonlyMap<number, number> {
    const held = new Map<number, number>();
    for (let i = 0; i < count && this.#left > 0; i++) {
      const holders = this.#holders.get(keyOf(low[i]!, high[i]!));
      this.#left -= 1 + (holders?.size ?? 0);
      if (holders === undefined) break;
      for (const replica of holders) held.set(replica, (held.get(replica) ?? 0) + 1);
    }
    return held;
  }

  #hold({ low, high, count }: BlockHashes, replica: number): void {
    for (let i = 0; i < count && this.#left > 0; i++) {
      this.#left--;
      const key = keyOf(low[i]!, high[i]!);
      const holders = this.#holders.get(key);
      if (holders === undefined) this.#holders.set(key, new Set([replica]));
      else holders.add(replica);
    }
  }

  /** The replica below its fair share that holds most of the prefix, if it holds enough of it. */
  #nearest(held: ReadonlyMap<number, number>): number | undefined {
    let best: number | undefined;
    for (const [replica, blocks] of held) {
      if (blocks < this.#settings.minColocateBlocks || this.#load[replica]! >= this.#fairShare) continue;
      const most = best === undefined ? -1 : held.get(best)!;
      if (blocks > most || (blocks === most && this.#isBefore(replica, best!))) best = replica;
    }
    return best;
  }

  /** The replica with the least load that may take more of the unit; when none may, the one with the least load. */
  #idlest(placed: ReadonlyMap<number, number>): number {
    let best = 0;
    let bestFull = true;
    for (let replica = 0; replica < this.#replicas.length; replica++) {
      const full = (placed.get(replica) ?? 0) >= this.#settings.maxPerReplica;
      if (replica > 0 && (full === bestFull ? !this.#isBefore(replica, best) : full)) continue;
      best = replica;
      bestFull = full;
    }
    return best;
  }

  #isBefore(a: number, b: number): boolean {
    if (this.#load[a] !== this.#load[b]) return this.#load[a]! < this.#load[b]!;
    const [one, other] = [this.#replicas[a]!, this.#replicas[b]!];
    const [mine, theirs] = [one.running || 0, other.running || 0];
    return mine === theirs ? one.name < other.name : mine < theirs;
  }
}
