/**
 * Hashing a prompt in chained 256-byte blocks: our own function beside the ways to use xxhash-wasm, and one xxh64 call
 * over the whole prompt as the floor.
 *
 *   node bench/prefix-hash.ts
 *
 * The prompt lies at an odd offset of its body, as prompts in JSON do. Every variant leaves two 32-bit halves per block
 * in typed arrays, each block's hash depending on all before it.
 */
import xxhash from "xxhash-wasm";
import { BlockHasher, BlockHashes } from "../src/picker/prefix/block-hash.ts";
import { measure } from "./support/measure.ts";

const BLOCK = 256;
const wasm = await xxhash();
const low = new Uint32Array(4096);
const high = new Uint32Array(4096);
const hasher = new BlockHasher(1, 2);
const hashes = new BlockHashes();

const variants: Record<string, (prompt: Uint8Array) => unknown> = {
  "own (block-hash.ts)": (prompt) => {
    const request = {
      body: prompt,
      prompts: [[{ start: 0, end: prompt.length }]],
      targetModel: "meta-llama/Llama-3.1-8B-Instruct",
      cacheSalt: "",
    };
    hasher.hash(request, BLOCK / 4, 2048, hashes);
  },
  "xxhash-wasm h64Raw per block": (prompt) => {
    let previous = 0n;
    for (let block = 0, at = 0; at < prompt.length; block++, at += BLOCK) {
      previous = wasm.h64Raw(prompt.subarray(at, at + BLOCK), previous);
      low[block] = Number(previous & 0xffffffffn);
      high[block] = Number(previous >> 32n);
    }
  },
  "xxhash-wasm h32Raw twice per block": (prompt) => {
    let one = 1;
    let two = 2;
    for (let block = 0, at = 0; at < prompt.length; block++, at += BLOCK) {
      const bytes = prompt.subarray(at, at + BLOCK);
      one = low[block] = wasm.h32Raw(bytes, one);
      two = high[block] = wasm.h32Raw(bytes, two);
    }
  },
  "xxhash-wasm stream, digest per block": (prompt) => {
    const stream = wasm.create64(0n);
    for (let block = 0, at = 0; at < prompt.length; block++, at += BLOCK) {
      const digest = stream.update(prompt.subarray(at, at + BLOCK)).digest();
      low[block] = Number(digest & 0xffffffffn);
      high[block] = Number(digest >> 32n);
    }
  },
  "floor: one h64Raw, no blocks": (prompt) => wasm.h64Raw(prompt, 0n),
};

for (const [label, size] of [
  ["1 KB", 1 << 10],
  ["16 KB", 16 << 10],
  ["400 KB", 400 << 10],
] as const) {
  const body = Uint8Array.from({ length: size + 3 }, (_, i) => (Math.imul(i, 2654435761) >>> 13) & 255);
  const prompt = body.subarray(3);
  const own = measure(() => variants["own (block-hash.ts)"]!(prompt));
  console.log(label);
  console.table(
    Object.entries(variants).map(([variant, run], i) => {
      const ns = i === 0 ? own : measure(() => run(prompt));
      return {
        variant,
        us: Number((ns / 1000).toFixed(2)),
        "GB/s": Number((size / ns).toFixed(2)),
        "times own": Number((ns / own).toFixed(2)),
      };
    }),
  );
}
