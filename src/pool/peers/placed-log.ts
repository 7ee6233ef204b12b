import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { PrefixChannel, SharedBlocks, SharedPrefixes } from "../../base/plugin/shared-prefixes.ts";
import { addressKey } from "../endpoints/address.ts";
import type { PoolEndpoint } from "../endpoints/pool-endpoint.ts";
import type { EndpointRegistry } from "../endpoints/registry.ts";
import { BlockBudget } from "./block-budget.ts";
import { type ClusterMark, decodePlaced, PlacedWriter } from "./codec.ts";
import { MAX_BLOCKS, type PeerRefusal, type Placement, type Sender } from "./message.ts";
import { CHANGES_ONLY, Publisher } from "./publisher.ts";
import { UnplacedBlocks } from "./unplaced-blocks.ts";

/** The most senders whose last number is remembered; a log holds messages of replicas that ended long ago, too. */
const MAX_SENDERS = 256;

/** Of a message, at least: a block has eight, and the rest belongs to its decision. */
const BYTES_A_BLOCK = 8;

type Receive = (endpoint: Endpoint, blocks: SharedBlocks) => void;

export interface PlacedLogParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly registry: EndpointRegistry;
  readonly cluster: ClusterMark;
  readonly hashKeys: readonly [number, number];
  readonly self: Pick<Sender, "id" | "epoch">;
  append(message: Uint8Array): void;
}

/**
 * What decisions newly placed, sent to the other replicas and received from them. Decisions of 20 ms share a message, so that the
 * store has little work for each of them. A repeated message counts once; one that is lost, or is one too many, costs only its blocks.
 *
 * Bounds: one message of 128 KiB is gathered at a time, and `UnplacedBlocks` has its own.
 */
export class PlacedLog implements SharedPrefixes {
  readonly hashKeys: readonly [number, number];
  /** Decisions and blocks that were sent, and that were received from peers. */
  readonly counts = { sentMessages: 0, sentBytes: 0, sentDecisions: 0, sentBlocks: 0, decisions: 0, blocks: 0 };
  readonly #parts: PlacedLogParts;
  readonly #writer: PlacedWriter;
  readonly #publisher: Publisher;
  readonly #channels = new Map<number, Set<Receive>>();
  readonly #unplaced: UnplacedBlocks;
  readonly #budget: BlockBudget;
  /** The last number of each sender and epoch, the sender heard last at the end. */
  readonly #seen = new Map<string, number>();
  #sequence = 0;

  constructor(parts: PlacedLogParts) {
    this.#parts = parts;
    this.hashKeys = parts.hashKeys;
    this.#writer = new PlacedWriter(parts.cluster);
    this.#publisher = new Publisher(parts.clock, () => this.#flush(), CHANGES_ONLY);
    this.#unplaced = new UnplacedBlocks(parts.clock);
    this.#budget = new BlockBudget(parts.random);
  }

  /** Blocks that wait for their endpoint. */
  get waiting(): number {
    return this.#unplaced.blocks;
  }

  start(): void {
    this.#publisher.start();
  }

  /** Sends what was gathered, and gathers no more. */
  close(): void {
    this.#flush();
    this.#publisher.close();
    this.#channels.clear();
  }

  open(space: string, receive: Receive): PrefixChannel {
    const mark = markOf(space);
    const receivers = this.#channels.get(mark) ?? new Set<Receive>();
    this.#channels.set(mark, receivers);
    receivers.add(receive);
    return {
      placed: (endpoint, blocks) => this.#gather(mark, endpoint, blocks),
      close: () => {
        receivers.delete(receive);
        if (receivers.size === 0 && this.#channels.get(mark) === receivers) this.#channels.delete(mark);
      },
    };
  }

  /**
   * Takes a message of the log.
   * @param isNew it has just been sent. What a replica reads of the past comes all at once, and the log bounds it
   * @returns why it does not count, where it does not
   */
  hear(message: Uint8Array, isNew: boolean): PeerRefusal | undefined {
    const { cluster, clock } = this.#parts;
    const read = decodePlaced(cluster, message, (sender) => {
      if (sender.id === this.#parts.self.id) return "own";
      if (!this.#isNews(sender)) return "old";
      return isNew && !this.#budget.takes(message.length / BYTES_A_BLOCK, clock.now()) ? "excess" : undefined;
    });
    if (typeof read === "string") return read;
    for (const placement of read.placements) {
      const endpoint = this.#parts.registry.byHostPort(placement.key);
      if (endpoint === undefined) this.#unplaced.keep(placement);
      else this.#place(endpoint, placement);
    }
    return undefined;
  }

  /** The pool has a further endpoint: what was placed there before counts from now on. */
  endpointAdded(endpoint: PoolEndpoint): void {
    for (const placement of this.#unplaced.take(addressKey(endpoint))) this.#place(endpoint, placement);
  }

  #place(endpoint: Endpoint, placement: Placement): void {
    const receivers = this.#channels.get(placement.space);
    if (receivers === undefined) return;
    this.counts.decisions++;
    this.counts.blocks += placement.count;
    for (const receive of receivers) receive(endpoint, placement);
  }

  #gather(space: number, endpoint: Endpoint, { low, high, from, count, blockTokens }: SharedBlocks): void {
    if (count === 0) return;
    if (!this.#writer.hasRoomFor(count)) this.#flush();
    if (this.#writer.isEmpty) this.#sequence++;
    const sender = { ...this.#parts.self, sequence: this.#sequence };
    this.#writer.add(sender, {
      key: endpoint.peers?.key ?? addressKey(endpoint),
      space,
      blockTokens,
      from,
      count,
      low,
      high,
    });
    this.counts.sentDecisions++;
    this.counts.sentBlocks += Math.min(MAX_BLOCKS, count);
    this.#publisher.changed();
  }

  #flush(): void {
    if (this.#writer.isEmpty) return;
    const message = this.#writer.take();
    this.counts.sentMessages++;
    this.counts.sentBytes += message.length;
    this.#parts.append(message);
  }

  #isNews({ id, epoch, sequence }: Sender): boolean {
    const sender = `${id} ${epoch}`;
    const last = this.#seen.get(sender);
    if (last !== undefined && sequence <= last) return false;
    this.#seen.delete(sender);
    this.#seen.set(sender, sequence);
    if (this.#seen.size > MAX_SENDERS) this.#seen.delete(this.#seen.keys().next().value!);
    return true;
  }
}

/** The mark of a space in messages: 32 bits of FNV-1a. */
export function markOf(space: string): number {
  let mark = 0x811c9dc5;
  for (let i = 0; i < space.length; i++) mark = Math.imul(mark ^ space.charCodeAt(i), 0x01000193);
  return mark | 0;
}
