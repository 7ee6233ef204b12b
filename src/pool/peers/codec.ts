import { createHash } from "node:crypto";
import { LEAST_BYTES_PER_TOKEN, MOST_BYTES_PER_TOKEN } from "../../base/inference/bytes-per-token.ts";
import { ByteReader, ByteWriter } from "./bytes.ts";
import {
  type EndpointLoad,
  type LoadMessage,
  MAX_BLOCKS,
  MAX_ENDPOINTS,
  MAX_KEY_BYTES,
  MAX_LOAD_BYTES,
  MAX_MODEL_BYTES,
  MAX_MODELS,
  MAX_PLACED_BYTES,
  MOST_REQUESTS,
  MOST_TOKENS,
  type PeerFacts,
  type PeerRefusal,
  type PlacedMessage,
  type Placement,
  PROTOCOL_VERSION,
  type Sender,
} from "./message.ts";

/** Every message begins with this byte, and with the version. */
const MAGIC = 0xd1;
const KIND = { load: 1, placed: 2 } as const;
const CLUSTER_BYTES = 8;
const ID_BYTES = 8;
const MOST_NUMBER = Number.MAX_SAFE_INTEGER;
/** The most tokens of a block: above it weights lose their precision. */
const MOST_BLOCK_TOKENS = 2 ** 20;
const LEAST_BLOCK_TOKENS = 2 ** -10;

/** The pool whose replicas share what they know, as bytes that messages carry. */
export type ClusterMark = Uint8Array;

/**
 * The mark of a cluster: the replicas of another pool, or with another secret, have another one.
 * @param identity names the pool, such as `default/llama`
 * @param secret known to the replicas alone; "" = none
 */
export function clusterMark(identity: string, secret: string): ClusterMark {
  return digest("mark", identity, secret).subarray(0, CLUSTER_BYTES);
}

/**
 * The two keys of the block hashes: equal in all replicas of a cluster, and unknown to whoever knows only the store. They keep
 * clients from choosing texts with equal hashes, and readers of the store from looking up texts that they guess.
 */
export function hashKeys(identity: string, secret: string): readonly [number, number] {
  const bytes = digest("hash keys", identity, secret);
  return [bytes.readInt32LE(0), bytes.readInt32LE(4)];
}

function digest(purpose: string, identity: string, secret: string): Buffer {
  return createHash("sha256")
    .update(JSON.stringify(["sluice peers", purpose, identity, secret]))
    .digest();
}

/** Writes the whole load of a replica. Endpoints and models above the bounds are left out. */
export function encodeLoad(cluster: ClusterMark, message: LoadMessage): Uint8Array {
  const writer = new ByteWriter(64 + 24 * message.loads.length);
  writeHead(writer, cluster, KIND.load, message);
  const loads = fitting(message.loads, MAX_ENDPOINTS);
  writer.varint(loads.length);
  for (const { key, requests, tokens } of loads) {
    writer.text(key);
    writer.varint(Math.min(MOST_REQUESTS, requests));
    writer.varint(Math.min(MOST_TOKENS, tokens));
  }
  writer.byte(message.facts === undefined ? 0 : 1);
  if (message.facts !== undefined) writeFacts(writer, message.facts);
  return writer.take();
}

function writeFacts(writer: ByteWriter, { down, bytesPerToken, capacities }: PeerFacts): void {
  const away = fitting(down, MAX_ENDPOINTS);
  writer.varint(away.length);
  for (const { key, forMs } of away) {
    writer.text(key);
    writer.varint(forMs);
  }
  const models = bytesPerToken.filter(({ model }) => Buffer.byteLength(model) <= MAX_MODEL_BYTES).slice(0, MAX_MODELS);
  writer.varint(models.length);
  for (const figure of models) {
    writer.text(figure.model);
    writer.float(Math.min(MOST_BYTES_PER_TOKEN, Math.max(LEAST_BYTES_PER_TOKEN, figure.bytesPerToken)));
  }
  const known = fitting(capacities, MAX_ENDPOINTS);
  writer.varint(known.length);
  for (const { key, requests } of known) {
    writer.text(key);
    writer.varint(Math.min(MOST_REQUESTS, requests));
  }
}

/** Those that a reader believes. */
function fitting<T extends { readonly key: string }>(items: readonly T[], most: number): readonly T[] {
  return items.filter(({ key }) => key !== "" && Buffer.byteLength(key) <= MAX_KEY_BYTES).slice(0, most);
}

/** Gathers placements into messages of the log, so that many decisions share one. */
export class PlacedWriter {
  readonly #cluster: ClusterMark;
  readonly #writer = new ByteWriter(1024);

  constructor(cluster: ClusterMark) {
    this.#cluster = cluster;
  }

  /** No placement was added since the last `take`. */
  get isEmpty(): boolean {
    return this.#writer.length === 0;
  }

  /** Whether as many blocks still fit into the message. */
  hasRoomFor(blocks: number): boolean {
    return this.#writer.length + MAX_KEY_BYTES + 128 + 8 * Math.min(MAX_BLOCKS, blocks) <= MAX_PLACED_BYTES;
  }

  /**
   * Adds one decision; call it only while there is room.
   * @param sender of the message; the first decision of a message counts
   * @param count blocks of `low` and `high` that count from `from` on, in the order of the prompt; those above `MAX_BLOCKS` are left out
   */
  add(sender: Sender, { key, space, blockTokens, from, count, low, high }: Placement): void {
    const writer = this.#writer;
    if (writer.length === 0) writeHead(writer, this.#cluster, KIND.placed, sender);
    writer.text(key);
    writer.word(space);
    writer.float(Math.min(MOST_BLOCK_TOKENS, Math.max(LEAST_BLOCK_TOKENS, blockTokens)));
    const blocks = Math.min(MAX_BLOCKS, count);
    writer.varint(blocks);
    writer.pairs(low, high, from, blocks);
  }

  /** Returns the message, and starts the next one. */
  take(): Uint8Array {
    return this.#writer.take();
  }
}

function writeHead(writer: ByteWriter, cluster: ClusterMark, kind: number, { id, epoch, sequence }: Sender): void {
  writer.byte(MAGIC);
  writer.byte(PROTOCOL_VERSION);
  writer.raw(cluster);
  writer.byte(kind);
  writer.raw(Buffer.from(id, "hex"));
  writer.varint(epoch);
  writer.varint(sequence);
}

/** Reads a load message. @returns why it is refused, where it is */
export function decodeLoad(cluster: ClusterMark, bytes: Uint8Array): LoadMessage | PeerRefusal {
  if (bytes.length > MAX_LOAD_BYTES) return "garbage";
  const reader = new ByteReader(bytes);
  const head = readHead(reader, cluster, KIND.load);
  if (typeof head === "string") return head;
  const loads: EndpointLoad[] = [];
  const count = countOf(reader, MAX_ENDPOINTS, 3);
  for (let i = 0; i < count && !reader.failed; i++)
    loads.push({ key: keyOf(reader), requests: reader.varint(MOST_REQUESTS), tokens: reader.varint(MOST_TOKENS) });
  const more = reader.byte();
  const facts = more === 1 ? readFacts(reader) : undefined;
  if (reader.failed || more > 1 || !reader.ended) return "garbage";
  return { ...head, loads, facts };
}

function readFacts(reader: ByteReader): PeerFacts {
  const down: { key: string; forMs: number }[] = [];
  for (let left = countOf(reader, MAX_ENDPOINTS, 2); left > 0 && !reader.failed; left--)
    down.push({ key: keyOf(reader), forMs: reader.varint(MOST_NUMBER) });
  const bytesPerToken: { model: string; bytesPerToken: number }[] = [];
  for (let left = countOf(reader, MAX_MODELS, 5); left > 0 && !reader.failed; left--)
    bytesPerToken.push({
      model: reader.text(MAX_MODEL_BYTES),
      bytesPerToken: reader.float(LEAST_BYTES_PER_TOKEN, MOST_BYTES_PER_TOKEN),
    });
  const capacities: { key: string; requests: number }[] = [];
  for (let left = countOf(reader, MAX_ENDPOINTS, 2); left > 0 && !reader.failed; left--)
    capacities.push({ key: keyOf(reader), requests: reader.varint(MOST_REQUESTS) });
  return { down, bytesPerToken, capacities };
}

/** Arrays for the blocks of one message, used again for the next one. */
export class BlockRoom {
  low = new Int32Array(0);
  high = new Int32Array(0);

  reserve(blocks: number): void {
    if (blocks <= this.low.length) return;
    this.low = new Int32Array(2 * blocks);
    this.high = new Int32Array(2 * blocks);
  }
}

/**
 * Reads a message of the log.
 * @param refuses why nobody wants to know more of a message than its sender; undefined = it is wanted
 * @param room gets the blocks, which are valid until it is used again
 * @returns why it is refused, where it is
 */
export function decodePlaced(
  cluster: ClusterMark,
  bytes: Uint8Array,
  refuses?: (sender: Sender) => PeerRefusal | undefined,
  room = new BlockRoom(),
): PlacedMessage | PeerRefusal {
  if (bytes.length > MAX_PLACED_BYTES) return "garbage";
  const reader = new ByteReader(bytes);
  const head = readHead(reader, cluster, KIND.placed);
  if (typeof head === "string") return head;
  const refusal = refuses?.(head);
  if (refusal !== undefined) return refusal;
  // One pair of arrays for all blocks: to make two for each decision takes longer than to read them.
  room.reserve(reader.left >>> 3);
  const { low, high } = room;
  const placements: Placement[] = [];
  for (let from = 0; !reader.failed && !reader.ended; ) {
    const placement = readPlacement(reader, low, high, from);
    placements.push(placement);
    from += placement.count;
  }
  return reader.failed || placements.length === 0 ? "garbage" : { ...head, placements };
}

function readPlacement(reader: ByteReader, low: Int32Array, high: Int32Array, from: number): Placement {
  const key = keyOf(reader);
  const space = reader.word();
  const blockTokens = reader.float(LEAST_BLOCK_TOKENS, MOST_BLOCK_TOKENS);
  const count = countOf(reader, MAX_BLOCKS, 8);
  reader.pairs(low, high, from, count);
  return { key, space, blockTokens, from, count, low, high };
}

function readHead(reader: ByteReader, cluster: ClusterMark, kind: number): Sender | PeerRefusal {
  if (reader.byte() !== MAGIC) return "garbage";
  const version = reader.byte();
  if (reader.failed) return "garbage";
  if (version !== PROTOCOL_VERSION) return "version";
  const same = reader.matches(cluster);
  if (reader.failed) return "garbage";
  if (!same) return "cluster";
  if (reader.byte() !== kind) return "garbage";
  const sender = { id: reader.hex(ID_BYTES), epoch: reader.varint(MOST_NUMBER), sequence: reader.varint(MOST_NUMBER) };
  return reader.failed ? "garbage" : sender;
}

/**
 * Reads a number of items. Each has at least `bytes` bytes, so that a number without its items takes no memory.
 */
function countOf(reader: ByteReader, most: number, bytes: number): number {
  const count = reader.varint(most);
  if (count * bytes > reader.left) reader.failed = true;
  return reader.failed ? 0 : count;
}

function keyOf(reader: ByteReader): string {
  const key = reader.text(MAX_KEY_BYTES);
  if (key === "") reader.failed = true;
  return key;
}
