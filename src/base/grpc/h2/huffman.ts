/**
 * Code length of each byte value, then of EOS (RFC 7541, appendix B). The code is canonical: codes of one length are
 * consecutive in the order of the symbols. So the lengths define the whole code.
 */
const LENGTHS = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
  28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
  13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6,
  5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23,
  22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22,
  23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26,
  20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27,
  27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27,
  27, 27, 27, 26, 30,
];

const EOS = 256;

/**
 * A trie that takes eight bits per step, with 256 cells per node. The cell of a longer code is `node << 9`. A code that ends
 * within these bits has the cell
 *   `1 << 31 | length in this step << 9 | symbol`.
 */
const TRIE = buildTrie();
const LEAF = 1 << 31;

/** Code of each symbol, by canonical numbering. */
function buildCodes(): Uint32Array {
  const codes = new Uint32Array(LENGTHS.length);
  let code = 0;
  for (let length = 1; length <= 30; length++) {
    for (let symbol = 0; symbol < LENGTHS.length; symbol++) {
      if (LENGTHS[symbol] === length) codes[symbol] = code++;
    }
    code *= 2;
  }
  return codes;
}

function buildTrie(): Int32Array {
  const codes = buildCodes();
  const cells: number[] = new Array(256).fill(0);
  for (let symbol = 0; symbol < LENGTHS.length; symbol++) {
    const code = codes[symbol]!;
    let left = LENGTHS[symbol]!;
    let node = 0;
    while (left > 8) {
      left -= 8;
      const cell = node * 256 + ((code >>> left) & 0xff);
      if (cells[cell] === 0) {
        cells[cell] = (cells.length / 256) << 9;
        for (let i = 0; i < 256; i++) cells.push(0);
      }
      node = cells[cell]! >> 9;
    }
    const first = (code << (8 - left)) & 0xff;
    for (let i = 0; i < 1 << (8 - left); i++) cells[node * 256 + first + i] = (1 << 31) | (left << 9) | symbol;
  }
  return Int32Array.from(cells);
}

/**
 * Decodes `bytes[from, to)` into `out`, which must hold 8/5 of the input.
 * @returns the number of bytes written, or -1: EOS within the text, a padding of eight bits or more, or one that is not all
 * ones (RFC 7541, section 5.2)
 */
export function decodeHuffman(bytes: Uint8Array, from: number, to: number, out: Uint8Array): number {
  let written = 0;
  let node = 0;
  /** The bits not yet used are the low `count` of `bits`. */
  let bits = 0;
  let count = 0;
  /** Bits since the last symbol, for judging the padding. */
  let open = 0;
  for (let at = from; at < to; at++) {
    bits = ((bits << 8) | bytes[at]!) & 0xffff;
    count += 8;
    open += 8;
    while (count >= 8) {
      const cell = TRIE[node + ((bits >> (count - 8)) & 0xff)]!;
      if (cell < 0) {
        const symbol = cell & 0x1ff;
        if (symbol === EOS) return -1;
        out[written++] = symbol;
        count -= (cell & ~LEAF) >> 9;
        open = count;
        node = 0;
      } else {
        if (cell === 0) return -1;
        node = cell >> 1;
        count -= 8;
      }
    }
  }
  // Up to seven bits are left: more codes that end within them, then padding.
  while (count > 0) {
    const cell = TRIE[node + ((bits << (8 - count)) & 0xff)]!;
    if (cell >= 0) break;
    const length = (cell & ~LEAF) >> 9;
    if (length > count) break;
    const symbol = cell & 0x1ff;
    if (symbol === EOS) return -1;
    out[written++] = symbol;
    count -= length;
    open = count;
    node = 0;
  }
  const ones = (1 << count) - 1;
  return open < 8 && (bits & ones) === ones ? written : -1;
}
