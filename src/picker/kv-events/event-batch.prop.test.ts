import { encode } from "@msgpack/msgpack";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EventBatchReader, type KvEvent } from "./event-batch.ts";
import { MalformedPayload } from "./payload-reader.ts";

const int64 = fc.oneof(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }), fc.nat().map(BigInt));
const hash = fc.oneof(int64, fc.uint8Array({ minLength: 1, maxLength: 40 }));
const text = fc.string({ maxLength: 20 });
const extras = fc.option(fc.array(fc.oneof(text, fc.tuple(text, fc.nat())), { maxLength: 3 }), { nil: null });

const storedEvent = fc.record({
  type: fc.constant("BlockStored" as const),
  block_hashes: fc.array(hash, { maxLength: 5 }),
  parent_block_hash: fc.option(hash, { nil: null }),
  token_ids: fc.array(fc.nat({ max: 2 ** 32 - 1 }), { maxLength: 40 }),
  block_size: fc.integer({ min: 1, max: 70_000 }),
  lora_id: fc.option(fc.nat(), { nil: null }),
  medium: fc.option(fc.constantFrom("GPU", "CPU_PINNED"), { nil: null }),
  lora_name: fc.option(text, { nil: null }),
  extra_keys: fc.option(fc.array(extras, { maxLength: 4 }), { nil: null }),
  group_idx: fc.option(fc.nat(300), { nil: null }),
  kv_cache_spec_kind: fc.option(text, { nil: null }),
  kv_cache_spec_sliding_window: fc.option(fc.nat(), { nil: null }),
});
const removedEvent = fc.record({
  type: fc.constant("BlockRemoved" as const),
  block_hashes: fc.array(hash, { maxLength: 5 }),
  medium: fc.option(fc.constantFrom("GPU", "disk"), { nil: null }),
  group_idx: fc.option(fc.nat(300), { nil: null }),
});
const anyEvent = fc.oneof(
  storedEvent,
  removedEvent,
  fc.record({ type: fc.constant("AllBlocksCleared" as const) }),
  fc.record({ type: fc.constant("SomethingNew" as const), more: fc.jsonValue() }),
);
type Given = { readonly type: string; readonly [field: string]: unknown };

/** A payload as an engine writes it: lists without the nils at their end, or maps. */
function payloadOf(events: readonly Given[], rank: number | undefined, form: "list" | "map"): Buffer {
  const options = { useBigInt64: true };
  if (form === "map") return Buffer.from(encode({ ts: 1.5, events, data_parallel_rank: rank ?? null }, options));
  const lists = events.map((event) => {
    const fields = Object.values(event);
    const required = event.type === "BlockStored" ? 5 : event.type === "BlockRemoved" ? 2 : 1;
    while (fields.length > required && fields.at(-1) === null) fields.pop();
    return fields;
  });
  return Buffer.from(encode(rank === undefined ? [1.5, lists] : [1.5, lists, rank], options));
}

function low64(value: unknown): bigint {
  if (typeof value === "bigint") return BigInt.asUintN(64, value);
  return BigInt(`0x${Buffer.from(value as Uint8Array).toString("hex")}`) & (2n ** 64n - 1n);
}

function read64({ low, high }: { low: Int32Array; high: Int32Array }, at: number): bigint {
  return (BigInt(high[at]! >>> 0) << 32n) | BigInt(low[at]! >>> 0);
}

/** What a reader should make of an event. */
function plain(given: Given): unknown {
  const hashes = ((given["block_hashes"] as unknown[]) ?? []).map(low64);
  const tier = String(given["medium"] ?? "").toLowerCase();
  const group = given["group_idx"] ?? -1;
  if (given.type === "BlockRemoved") return { type: "removed", hashes, tier, group };
  if (given.type === "AllBlocksCleared") return { type: "cleared" };
  if (given.type === "SomethingNew") return undefined;
  const parent = given["parent_block_hash"] === null ? 0n : low64(given["parent_block_hash"]);
  return {
    ...{ type: "stored", hashes, tier, group, parent },
    tokens: given["token_ids"],
    blockSize: given["block_size"],
    adapter: given["lora_name"] ?? "",
    kind: given["kv_cache_spec_kind"] ?? "",
    extras: ((given["extra_keys"] as unknown[][] | null) ?? []).map((keys) =>
      (keys ?? []).map((key) => (Array.isArray(key) ? key[0] : key)),
    ),
  };
}

function seen(event: KvEvent): unknown {
  if (event.type === "cleared") return { type: "cleared" };
  const { type, count, tier, group } = event;
  const hashes = Array.from({ length: count }, (_, i) => read64(event, i));
  if (type === "removed") return { type, hashes, tier, group };
  const { tokens, tokenCount, blockSize, adapter, kind, extras, hasParent, parentLow, parentHigh } = event;
  const parent = { low: Int32Array.of(parentLow), high: Int32Array.of(parentHigh) };
  return {
    ...{ type, hashes, tier, group, blockSize, adapter, kind },
    parent: hasParent ? read64(parent, 0) : 0n,
    tokens: [...tokens.subarray(0, tokenCount)].map((token) => token >>> 0),
    extras: extras ?? [],
  };
}

/** Blocks without extras at the end look like blocks that are not mentioned. */
function trimmed(value: unknown): unknown {
  const event = value as { extras?: (readonly string[] | undefined)[] };
  if (event.extras === undefined) return value;
  const list = Array.from(event.extras, (keys) => keys ?? []);
  while (list.length > 0 && list.at(-1)!.length === 0) list.pop();
  return { ...event, extras: list };
}

describe("EventBatchReader", () => {
  const reader = new EventBatchReader();

  it("reads what an encoder writes, as lists and as maps", () => {
    fc.assert(
      fc.property(
        fc.array(anyEvent, { maxLength: 4 }),
        fc.option(fc.nat(300), { nil: undefined }),
        fc.constantFrom("list" as const, "map" as const),
        (events, rank, form) => {
          const found: unknown[] = [];
          reader.read(payloadOf(events as Given[], rank, form), (event, head) => {
            expect(head.rank).toBe(rank ?? -1);
            found.push(trimmed(seen(event)));
          });
          const expected = (events as Given[]).map(plain).filter((one) => one !== undefined);
          expect(found).toEqual(expected.map(trimmed));
        },
      ),
    );
  });

  it("refuses bytes that are no payload, and nothing else happens", () => {
    fc.assert(
      fc.property(fc.array(anyEvent, { maxLength: 3 }), fc.nat(), fc.nat(255), fc.nat(), (events, at, byte, cut) => {
        const payload = payloadOf(events as Given[], 0, "list");
        payload[at % payload.length] = byte;
        try {
          reader.read(payload.subarray(0, cut % (payload.length + 1)), () => {});
        } catch (error) {
          expect(error).toBeInstanceOf(MalformedPayload);
        }
      }),
    );
  });

  it("believes no length that the payload cannot hold", () => {
    for (const hex of [
      "ddffffffff",
      "92c0ddffffffff",
      "92c091ddffffffff",
      "92c09195ab426c6f636b53746f726564ddffffffff",
    ])
      expect(() => reader.read(Buffer.from(hex, "hex"), () => {})).toThrow(MalformedPayload);
    const deep = Buffer.concat([Buffer.from("92", "hex"), Buffer.alloc(5_000, 0x91), Buffer.from("90", "hex")]);
    expect(() => reader.read(deep, () => {})).toThrow(MalformedPayload);
  });

  it("refuses an event of more blocks than may be taken in one go", () => {
    const removal = (blocks: number): Buffer =>
      Buffer.from(encode([1, [["BlockRemoved", Array.from({ length: blocks }, (_, n) => n)]]]));
    let events = 0;
    reader.read(removal(2 ** 14), () => events++);
    expect(events).toBe(1);
    expect(() => reader.read(removal(2 ** 14 + 1), () => events++)).toThrow(MalformedPayload);
    expect(events).toBe(1);
  });

  it("refuses blocks without tokens, and a block with very many images", () => {
    const stored = (size: number, images: number): Buffer => {
      const extras = [Array.from({ length: images }, (_, n) => `image ${n}`)];
      return Buffer.from(encode([1, [["BlockStored", [1], null, [7, 8], size, null, "GPU", null, extras]]]));
    };
    let events = 0;
    reader.read(stored(2, 64), () => events++);
    expect(events).toBe(1);
    for (const payload of [stored(0, 1), stored(2, 65)])
      expect(() => reader.read(payload, () => events++)).toThrow(MalformedPayload);
    expect(events).toBe(1);
  });

  it("keeps no memory of a very long event", () => {
    const room: number[] = [];
    for (const tokens of [2 ** 18, 8]) {
      const event = ["BlockStored", [1], null, Array.from({ length: tokens }, () => 1), tokens];
      reader.read(Buffer.from(encode([1, [event]])), (one) => room.push(one.type === "stored" ? one.tokens.length : 0));
    }
    expect(room[0]).toBeGreaterThanOrEqual(2 ** 18);
    expect(room[1]).toBeLessThan(1_000);
  });
});
