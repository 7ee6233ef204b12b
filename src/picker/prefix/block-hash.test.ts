import { describe, expect, it } from "vitest";
import { BlockHasher, BlockHashes, type HashedRequest } from "./block-hash.ts";

const hasher = new BlockHasher(1, 2);

/** A request whose prompts are these texts, one range each, somewhere inside a body. */
function requestOf(prompts: readonly string[], targetModel = "m", cacheSalt = "", lead = "xyz"): HashedRequest {
  const body = new TextEncoder().encode(lead + prompts.join(""));
  let at = lead.length;
  const ranges = prompts.map((prompt) => {
    at += prompt.length;
    return [{ start: at - prompt.length, end: at }];
  });
  return { body, prompts: ranges, targetModel, cacheSalt };
}

/** Each block's hash as one text; the prompts are separated by "|". */
function hashesOf(request: HashedRequest, blockTokens = 64, maxBlocks = 2048): string[] {
  const out = new BlockHashes();
  hasher.hash(request, blockTokens, maxBlocks, out);
  return Array.from({ length: out.count }, (_, i) => `${out.low[i]}:${out.high[i]}`);
}

const text = (length: number, seed = 0): string =>
  Array.from({ length }, (_, i) => String.fromCharCode(97 + ((i * 7 + seed + (i >> 4)) % 26))).join("");

describe("block hashes", () => {
  it("S-53: a 100-token prompt in blocks of 64 makes two blocks, the partial one included", () => {
    expect(hashesOf(requestOf([text(400)]))).toHaveLength(2);
    expect(hashesOf(requestOf([text(256)]))).toHaveLength(1);
    expect(hashesOf(requestOf([text(257)]))).toHaveLength(2);
    expect(hashesOf(requestOf([text(1)]))).toHaveLength(1);
    expect(hashesOf(requestOf([""]))).toHaveLength(0);
    expect(hashesOf(requestOf([]))).toHaveLength(0);
  });

  it("S-54: hashes no more blocks than allowed, over all prompts together, and each of them as without a limit", () => {
    const long = hashesOf(requestOf([text(10_000)]));
    expect(hashesOf(requestOf([text(10_000)]), 64, 10)).toEqual(long.slice(0, 10));
    expect(hashesOf(requestOf([text(1000), text(1000, 1)]), 64, 6)).toEqual([
      ...hashesOf(requestOf([text(1000)])),
      ...hashesOf(requestOf([text(1000, 1)]), 64, 2),
    ]);
    expect(hashesOf(requestOf([text(10_000)]), 64, 0)).toEqual([]);
  });

  it("S-51: another model or another cache salt shares no block", () => {
    const seeds = [
      ["m", ""],
      ["other", ""],
      ["m", "tenant"],
      ["", "m"],
      ["mtenant", ""],
      ["mt", "enant"],
      ["m\0", "tenant"],
      ["m", "\0tenant"],
    ] as const;
    const blocks = seeds.flatMap(([model, salt]) => hashesOf(requestOf([text(2000)], model, salt)));
    expect(new Set(blocks).size).toBe(seeds.length * 8);
  });

  describe("S-51: salts of equal length, and models of equal length, share no block", () => {
    const prompt = text(700);
    const distinct = (names: readonly string[], hashes: (name: string) => string[]): void => {
      const blocks = names.flatMap(hashes);
      expect(blocks).toHaveLength(names.length * 3);
      expect(new Set(blocks).size).toBe(blocks.length);
    };
    // One character changed at each place, two exchanged, other planes of Unicode, and lengths that are kept and are not.
    const names = [1, 2, 6, 40, 300].flatMap((length) => {
      const plain = "a".repeat(length);
      const places = Array.from({ length: Math.min(length, 40) }, (_, i) =>
        Math.floor((i * length) / Math.min(length, 40)),
      );
      return [
        plain,
        ...places.flatMap((at) =>
          ["b", "\u0161", "\u6101", "A"].map((c) => plain.slice(0, at) + c + plain.slice(at + 1)),
        ),
      ];
    });
    const anagrams = ["tenant-12", "tenant-21", "21-tenant", "tnenat-12", "tenant12-"];

    it("as cache salts", () => {
      for (const all of [names, anagrams]) distinct(all, (salt) => hashesOf(requestOf([prompt], "m", salt)));
    });

    it("as target models, with a salt and without", () => {
      for (const all of [names, anagrams])
        for (const salt of ["", "tenant"]) distinct(all, (model) => hashesOf(requestOf([prompt], model, salt)));
    });

    it("also in each of several prompts, and when requests of tenants alternate", () => {
      const both = (salt: string): string[] => hashesOf(requestOf([prompt, prompt], "m", salt));
      const [a, b] = [both("tenant-a"), both("tenant-b")];
      expect(a.slice(0, 3)).toEqual(a.slice(3));
      expect(a.filter((hash) => b.includes(hash))).toEqual([]);
      for (const [salt, before] of [
        ["tenant-a", a],
        ["tenant-b", b],
        ["tenant-b", b],
        ["tenant-a", a],
      ] as const)
        expect(both(salt)).toEqual(before);
      const long = "x".repeat(400);
      for (const salt of [`${long}a`, `${long}b`, `${long}a`]) {
        const mixed = hashesOf(requestOf([prompt], "m", salt));
        expect(mixed).toEqual(hashesOf(requestOf([prompt], "m", salt)));
        expect(hashesOf(requestOf([prompt], "", ""))).not.toEqual(mixed);
      }
      expect(both("tenant-a")).toEqual(a);
    });

    it("whatever the secret of the process is", () => {
      const out = new BlockHashes();
      for (let key = 0; key < 50; key++) {
        const other = new BlockHasher(key, key * 7919);
        const first = ["tenant-a", "tenant-b", "tenant-c"].map((salt) => {
          other.hash(requestOf([prompt], "m", salt), 64, 2048, out);
          return `${out.low[0]}:${out.high[0]}`;
        });
        expect(new Set(first).size).toBe(3);
      }
    });
  });

  it("chains: after the first difference every block differs, before it none", () => {
    const original = text(256 * 8);
    const before = hashesOf(requestOf([original]));
    for (let at = 0; at < original.length; at += 61) {
      const changed = hashesOf(requestOf([`${original.slice(0, at)}~${original.slice(at + 1)}`]));
      const block = at >> 8;
      expect(changed.slice(0, block)).toEqual(before.slice(0, block));
      expect(changed.slice(block).filter((hash) => before.includes(hash))).toEqual([]);
    }
  });

  it("does not depend on where in the body a prompt lies or into how many ranges it is cut", () => {
    const prompt = text(1003);
    const expected = hashesOf(requestOf([prompt]));
    for (const lead of ["", "1", "12", "0123456"])
      expect(hashesOf(requestOf([prompt], "m", "", lead))).toEqual(expected);
    for (const cut of [1, 255, 256, 700, 1002]) {
      const body = new TextEncoder().encode(`${prompt.slice(cut)}##${prompt.slice(0, cut)}`);
      const ranges = [
        { start: body.length - cut, end: body.length },
        { start: 0, end: prompt.length - cut },
      ];
      expect(hashesOf({ body, prompts: [ranges], targetModel: "m", cacheSalt: "" })).toEqual(expected);
      expect(hashesOf({ body, prompts: [ranges], targetModel: "m", cacheSalt: "" }, 64, 2)).toEqual(
        expected.slice(0, 2),
      );
    }
  });

  it("reads only the view it is given, not the buffer behind it", () => {
    const whole = new TextEncoder().encode(`abc${text(600)}xyz`);
    const view = whole.subarray(3, 603);
    const request = { body: view, prompts: [[{ start: 0, end: 600 }]], targetModel: "m", cacheSalt: "" };
    expect(hashesOf(request)).toEqual(hashesOf(requestOf([text(600)])));
  });

  it("hashes each prompt of a list on its own", () => {
    const both = hashesOf(requestOf([text(700), text(300, 5)]));
    expect(both).toEqual([...hashesOf(requestOf([text(700)])), ...hashesOf(requestOf([text(300, 5)]))]);
    const out = new BlockHashes();
    hasher.hash(requestOf([text(700), "", text(300)]), 64, 2048, out);
    expect([...out.ends.slice(0, out.prompts)]).toEqual([3, 3, 5]);
  });

  it("tells trailing zeros from the end of the text, at every length", () => {
    const seen = new Set<string>();
    for (let zeros = 0; zeros < 40; zeros++) {
      const [hash] = hashesOf(requestOf([`text${"\0".repeat(zeros)}`]));
      seen.add(hash!);
    }
    expect(seen.size).toBe(40);
  });

  it.each([65, 66, 67, 100, 128, 1000])("keeps the boundaries of %d-token blocks", (tokens) => {
    const blocks = hashesOf(requestOf([text(tokens * 4 * 3)]), tokens);
    expect(blocks).toHaveLength(3);
    expect(hashesOf(requestOf([text(tokens * 4 * 2)]), tokens)).toEqual(blocks.slice(0, 2));
    expect(hashesOf(requestOf([text(tokens * 4 * 2 - 1)]), tokens)[1]).not.toBe(blocks[1]);
  });

  it("differs between processes, so that no client can prepare texts whose hashes collide", () => {
    const out = new BlockHashes();
    new BlockHasher(1, 3).hash(requestOf([text(300)]), 64, 10, out);
    expect(`${out.low[0]}:${out.high[0]}`).not.toBe(hashesOf(requestOf([text(300)]))[0]);
  });

  it("scatters similar texts: no 64-bit hash twice, each half as often as chance has it", () => {
    // 60,000 texts that differ in a decimal counter, in one flipped bit, or in two bits.
    const out = new BlockHashes();
    const whole = new Set<string>();
    const low = new Set<number>();
    const high = new Set<number>();
    const body = new Uint8Array(256);
    const request = { body, prompts: [[{ start: 0, end: 256 }]], targetModel: "m", cacheSalt: "" };
    const add = (): void => {
      hasher.hash(request, 64, 1, out);
      whole.add(`${out.low[0]}:${out.high[0]}`);
      low.add(out.low[0]!);
      high.add(out.high[0]!);
    };
    let texts = 0;
    for (let i = 0; i < 30_000; i++, texts++) {
      body.fill(32);
      body.set(new TextEncoder().encode(String(i)), i % 200);
      add();
    }
    body.fill(0);
    for (let first = 0; first < 2048; first++) {
      for (let second = first; second < Math.min(2048, first + 15); second++, texts++) {
        body[first >> 3]! ^= 1 << (first & 7);
        if (second !== first) body[second >> 3]! ^= 1 << (second & 7);
        add();
        body.fill(0);
      }
    }
    expect(whole.size).toBe(texts);
    // 60,000 draws of 32 bits meet 0.43 times on average; five times is beyond 1 in 100,000.
    expect(texts - low.size).toBeLessThan(5);
    expect(texts - high.size).toBeLessThan(5);
  });

  it.each([1, 40, 127, 128, 5000])("are the same after %d blocks were packed and unpacked", (count) => {
    const hashes = new BlockHashes();
    hashes.reset(count, 3);
    for (let i = 0; i < count; i++) {
      hashes.low[i] = Math.imul(i + 1, 0x9e3779b1);
      hashes.high[i] = -i;
    }
    hashes.count = count;
    hashes.ends.set([0, 1, count]);
    hashes.prompts = 3;
    const packed = hashes.packed();
    const { low, high, ends } = hashes;
    const kept = [low.slice(0, count), high.slice(0, count), ends.slice(0, 3)];
    low.fill(7);
    ends.fill(7);
    const other = new BlockHashes();
    other.unpack(packed);
    expect([other.low.slice(0, count), other.high.slice(0, count), other.ends.slice(0, 3)]).toEqual(kept);
    expect([other.count, other.prompts]).toEqual([count, 3]);
  });
});
