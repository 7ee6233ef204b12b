import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ByteWriter } from "./bytes.ts";
import { clusterMark, decodeLoad, decodePlaced, encodeLoad, hashKeys, PlacedWriter } from "./codec.ts";
import {
  type LoadMessage,
  MAX_BLOCKS,
  MAX_ENDPOINTS,
  MAX_KEY_BYTES,
  MAX_LOAD_BYTES,
  MAX_MODELS,
  MAX_PLACED_BYTES,
  type PeerRefusal,
  type PlacedMessage,
  REFUSALS,
} from "./message.ts";

const CLUSTER = clusterMark("default/llama", "secret");
const sender = {
  id: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map((id) => id.toString(16).padStart(16, "0")),
  epoch: fc.maxSafeNat(),
  sequence: fc.maxSafeNat(),
};
const key = fc
  .string({ minLength: 1, maxLength: 60, unit: "grapheme" })
  .filter((text) => Buffer.byteLength(text) <= 262);
const facts = fc.record({
  down: fc.array(fc.record({ key, forMs: fc.maxSafeNat() }), { maxLength: 5 }),
  bytesPerToken: fc.array(
    fc.record({ model: fc.string(), bytesPerToken: fc.float({ min: 1, max: 16, noNaN: true }) }),
    { maxLength: 5 },
  ),
  capacities: fc.array(fc.record({ key, requests: fc.nat(10_000_000) }), { maxLength: 5 }),
});
const loadMessage: fc.Arbitrary<LoadMessage> = fc.record({
  ...sender,
  loads: fc.array(fc.record({ key, requests: fc.nat(10_000_000), tokens: fc.nat(2 ** 31 - 1) }), { maxLength: 20 }),
  facts: fc.option(facts, { nil: undefined }),
});
const hash = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
const placement = fc
  .record({
    key,
    space: hash,
    blockTokens: fc.float({ min: 1, max: 2 ** 20, noNaN: true }),
    hashes: fc.array(fc.tuple(hash, hash), { maxLength: 20 }),
  })
  .map(({ hashes, ...rest }) => ({
    ...rest,
    from: 0,
    count: hashes.length,
    low: Int32Array.from(hashes, ([low]) => low),
    high: Int32Array.from(hashes, ([, high]) => high),
  }));
const placedMessage: fc.Arbitrary<PlacedMessage> = fc.record({
  ...sender,
  placements: fc.array(placement, { minLength: 1, maxLength: 8 }),
});

/** With arrays of their own for each decision. */
function apart(read: PlacedMessage | PeerRefusal): PlacedMessage | PeerRefusal {
  if (typeof read === "string") return read;
  const placements = read.placements.map(({ low, high, from, count, ...rest }) => ({
    ...{ ...rest, from: 0, count, low: low.slice(from, from + count), high: high.slice(from, from + count) },
  }));
  return { ...read, placements };
}

function encodePlaced({ placements, ...from }: PlacedMessage, cluster = CLUSTER): Uint8Array {
  const writer = new PlacedWriter(cluster);
  for (const one of placements) writer.add(from, one);
  return writer.take();
}

describe("messages of peers", () => {
  it("are read as they were written", () => {
    fc.assert(
      fc.property(loadMessage, (message) => {
        expect(decodeLoad(CLUSTER, encodeLoad(CLUSTER, message))).toEqual(message);
      }),
    );
    fc.assert(
      fc.property(placedMessage, (message) => {
        expect(apart(decodePlaced(CLUSTER, encodePlaced(message)))).toEqual(message);
      }),
    );
  });

  it("that are cut off, longer or of the other kind are garbage", () => {
    fc.assert(
      fc.property(
        loadMessage,
        placedMessage,
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (a, b, at) => {
          const [load, placed] = [encodeLoad(CLUSTER, a), encodePlaced({ ...b, placements: b.placements.slice(0, 1) })];
          for (const [bytes, decode] of [[load, decodeLoad] as const, [placed, decodePlaced] as const]) {
            expect(decode(CLUSTER, bytes.subarray(0, Math.floor(at * bytes.length)))).toBe("garbage");
            expect(decode(CLUSTER, Buffer.concat([bytes, Buffer.of(0)]))).toBe("garbage");
          }
          expect(decodeLoad(CLUSTER, placed)).toBe("garbage");
          expect(decodePlaced(CLUSTER, load)).toBe("garbage");
        },
      ),
    );
  });

  it("with other bytes are refused with a reason, or hold only figures within the bounds; nothing is thrown", () => {
    const changes = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(loadMessage, placedMessage, changes, (a, b, changed) => {
        for (const [bytes, decode] of [
          [Buffer.from(encodeLoad(CLUSTER, a)), decodeLoad] as const,
          [Buffer.from(encodePlaced(b)), decodePlaced] as const,
        ]) {
          for (const [at, value] of changed) bytes[at % bytes.length] = value;
          const read = decode(CLUSTER, bytes);
          if (typeof read === "string") expect(REFUSALS).toContain(read);
          else checkBounds(read);
        }
      }),
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        expect([decodeLoad(CLUSTER, bytes), decodePlaced(CLUSTER, bytes)]).toEqual(["garbage", "garbage"]);
      }),
    );
  });

  it("of another pool, of a replica with another secret and of another release are told apart", () => {
    const message = { id: "0123456789abcdef", epoch: 5, sequence: 1, loads: [], facts: undefined };
    for (const other of [clusterMark("default/other", "secret"), clusterMark("default/llama", "other")])
      expect(decodeLoad(CLUSTER, encodeLoad(other, message))).toBe("cluster");
    const later = encodeLoad(CLUSTER, message);
    later[1] = 2;
    expect(decodeLoad(CLUSTER, later)).toBe("version");
    expect(decodePlaced(CLUSTER, later)).toBe("version");
    expect(hashKeys("default/llama", "secret")).not.toEqual(hashKeys("default/llama", "other"));
    expect(hashKeys("a", "bc")).not.toEqual(hashKeys("ab", "c"));
  });

  it("stay below their bounds: what is above is left out", () => {
    const loads = Array.from({ length: MAX_ENDPOINTS + 9 }, (_, i) => ({
      ...{ key: `${"h".repeat(MAX_KEY_BYTES - 10)}:${i}`, requests: 1e9, tokens: 1e15 },
    }));
    const models = Array.from({ length: MAX_MODELS + 9 }, (_, i) => ({ model: `m${i}`, bytesPerToken: 99 }));
    const long = { model: "m".repeat(2000), bytesPerToken: 4 };
    const all = { down: [], bytesPerToken: [long, ...models], capacities: [] };
    const from = { id: "0123456789abcdef", epoch: 5, sequence: 1 };
    const bytes = encodeLoad(CLUSTER, {
      ...from,
      loads: [{ ...loads[0]!, key: "k".repeat(263) }, ...loads],
      facts: all,
    });
    const read = decodeLoad(CLUSTER, bytes) as LoadMessage;
    expect([read.loads.length, read.facts!.bytesPerToken.length]).toEqual([MAX_ENDPOINTS, MAX_MODELS]);
    expect(read.loads[0]).toMatchObject({ requests: 1e7, tokens: 1e12 });
    checkBounds(read);
    expect(decodeLoad(CLUSTER, Buffer.alloc(2 * MAX_LOAD_BYTES, bytes))).toBe("garbage");
  });

  it("with a figure above its bound are garbage", () => {
    const nobody = encodeLoad(CLUSTER, { id: "0123456789abcdef", epoch: 5, sequence: 1, loads: [], facts: undefined });
    const withLoad = (requests: number): LoadMessage | string => {
      const writer = new ByteWriter(64);
      writer.raw(nobody.subarray(0, -2));
      writer.varint(1);
      writer.text("a:1");
      writer.varint(requests);
      writer.varint(0);
      writer.byte(0);
      return decodeLoad(CLUSTER, writer.take());
    };
    expect(withLoad(1e7)).toMatchObject({ loads: [{ key: "a:1", requests: 1e7 }] });
    expect(withLoad(1e7 + 1)).toBe("garbage");
  });

  it("of the log have room for the largest decision, and say when they are full", () => {
    const writer = new PlacedWriter(CLUSTER);
    const blocks = new Int32Array(3 * MAX_BLOCKS).fill(7);
    const large = {
      key: "k".repeat(MAX_KEY_BYTES),
      space: 1,
      blockTokens: 64,
      from: 0,
      count: blocks.length,
      low: blocks,
      high: blocks,
    };
    let decisions = 0;
    for (; writer.hasRoomFor(large.count); decisions++)
      writer.add({ id: "0123456789abcdef", epoch: 5, sequence: 1 }, large);
    expect(decisions).toBeGreaterThan(1);
    const message = writer.take();
    expect(message.length).toBeLessThanOrEqual(MAX_PLACED_BYTES);
    const read = decodePlaced(CLUSTER, message) as PlacedMessage;
    expect(read.placements.map(({ count }) => count)).toEqual(Array(decisions).fill(MAX_BLOCKS));
    expect([writer.isEmpty, writer.take().length]).toEqual([true, 0]);
    for (let i = 0; i < 5; i++) writer.add({ id: "0123456789abcdef", epoch: 5, sequence: 1 }, large);
    expect(decodePlaced(CLUSTER, writer.take())).toBe("garbage");
    expect(decodePlaced(CLUSTER, Buffer.alloc(MAX_PLACED_BYTES + 1, message))).toBe("garbage");
  });

  it("spend at most 200 bytes on a decision besides 8 for each new block", () => {
    const writer = new PlacedWriter(CLUSTER);
    const low = new Int32Array(10);
    const one = { key: "10.200.100.100:8000", space: 1, blockTokens: 64, from: 0, count: 10, low, high: low };
    writer.add({ id: "0123456789abcdef", epoch: Date.UTC(2040) * 1024, sequence: 2 ** 40 }, one);
    expect(writer.take().length - 80).toBeLessThanOrEqual(100);
  });
});

function checkBounds(read: LoadMessage | PlacedMessage): void {
  if ("placements" in read) {
    for (const { from, count, low, high, blockTokens, key: at } of read.placements) {
      expect(from + count).toBeLessThanOrEqual(Math.min(low.length, high.length));
      expect(count).toBeLessThanOrEqual(MAX_BLOCKS);
      expect(blockTokens > 0 && Number.isFinite(blockTokens)).toBe(true);
      expect(at).not.toBe("");
    }
    return;
  }
  expect(read.loads.length).toBeLessThanOrEqual(MAX_ENDPOINTS);
  for (const { key: at, requests, tokens } of read.loads) {
    expect(at).not.toBe("");
    expect(requests >= 0 && requests <= 1e7 && tokens >= 0 && tokens <= 1e12).toBe(true);
  }
  for (const { bytesPerToken } of read.facts?.bytesPerToken ?? [])
    expect(bytesPerToken >= 1 && bytesPerToken <= 16).toBe(true);
}
