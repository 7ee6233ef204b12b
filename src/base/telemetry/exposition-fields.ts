/** Most labels of one sample; a sample with more is malformed. vLLM's widest has 25. */
const MAX_LABELS = 256;

const utf8 = new TextDecoder();

/**
 * The labels of one line, found but not yet decoded. One object serves every line. It refers to the bytes of the page and
 * copies none.
 */
export class LabelBlock {
  #page: Uint8Array = new Uint8Array(0);
  #count = 0;
  /** Per label: start and end of the name, start and end of the value between its quotes. */
  readonly #offsets = new Int32Array(MAX_LABELS * 4);

  /** Number of labels. */
  get size(): number {
    return this.#count;
  }

  clear(): void {
    this.#count = 0;
  }

  /**
   * Reads a block whose opening brace is at `open`, in a line that ends before `end`. Returns where the line goes on
   * after the closing brace, or -1 when the block is malformed.
   */
  scan(page: Uint8Array, open: number, end: number): number {
    this.#page = page;
    this.#count = 0;
    let at = skipBlanks(page, open + 1, end);
    while (at < end) {
      if (page[at] === 0x7d) return at + 1;
      if (this.#count === MAX_LABELS) return -1;
      const nameStart = at;
      while (at < end && isLabelByte(page[at]!, at > nameStart)) at++;
      const nameEnd = at;
      if (nameEnd === nameStart) return -1;
      at = skipBlanks(page, at, end);
      if (at >= end || page[at] !== 0x3d) return -1;
      at = skipBlanks(page, at + 1, end);
      if (at >= end || page[at] !== 0x22) return -1;
      const valueStart = at + 1;
      at = valueStart;
      while (at < end && page[at] !== 0x22) at += page[at] === 0x5c ? 2 : 1;
      if (at >= end) return -1;
      this.#add(nameStart, nameEnd, valueStart, at);
      at = skipBlanks(page, at + 1, end);
      if (at < end && page[at] === 0x2c) at = skipBlanks(page, at + 1, end);
      else if (at >= end || page[at] !== 0x7d) return -1;
    }
    return -1;
  }

  /** The value of the first label called `name`, decoded. */
  get(name: string): string | undefined {
    for (let i = 0; i < this.#count; i++) {
      if (this.#isCalled(i, name)) return this.#value(i);
    }
    return undefined;
  }

  /** Every label in the order of the line. Of two labels with one name, the first. */
  toMap(): Map<string, string> {
    const map = new Map<string, string>();
    for (let i = 0; i < this.#count; i++) {
      const name = ascii(this.#page, this.#offsets[i * 4]!, this.#offsets[i * 4 + 1]!);
      if (!map.has(name)) map.set(name, this.#value(i));
    }
    return map;
  }

  #add(nameStart: number, nameEnd: number, valueStart: number, valueEnd: number): void {
    const at = this.#count++ * 4;
    this.#offsets[at] = nameStart;
    this.#offsets[at + 1] = nameEnd;
    this.#offsets[at + 2] = valueStart;
    this.#offsets[at + 3] = valueEnd;
  }

  #isCalled(label: number, name: string): boolean {
    const start = this.#offsets[label * 4]!;
    if (this.#offsets[label * 4 + 1]! - start !== name.length) return false;
    for (let i = 0; i < name.length; i++) {
      if (this.#page[start + i] !== name.charCodeAt(i)) return false;
    }
    return true;
  }

  #value(label: number): string {
    const start = this.#offsets[label * 4 + 2]!;
    const end = this.#offsets[label * 4 + 3]!;
    for (let at = start; at < end; at++) {
      const byte = this.#page[at]!;
      if (byte === 0x5c || byte >= 0x80) return unescaped(utf8.decode(this.#page.subarray(start, end)));
    }
    return ascii(this.#page, start, end);
  }
}

/** The first index from `at` on, below `end`, that holds neither space nor tab. */
export function skipBlanks(page: Uint8Array, at: number, end: number): number {
  let next = at;
  while (next < end && (page[next] === 0x20 || page[next] === 0x09)) next++;
  return next;
}

/** Letters, digits and underscore; no digit first. */
export function isLabelByte(byte: number, digitAllowed: boolean): boolean {
  const lower = byte | 0x20;
  return (lower >= 0x61 && lower <= 0x7a) || byte === 0x5f || (digitAllowed && byte >= 0x30 && byte <= 0x39);
}

/** Undoes \\, \" and \n; a backslash before anything else stays, as in Prometheus. */
function unescaped(text: string): string {
  return text.replace(/\\([\\"n])/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));
}

function ascii(page: Uint8Array, start: number, end: number): string {
  let text = "";
  for (let at = start; at < end; at++) text += String.fromCharCode(page[at]!);
  return text;
}

/** Longest number that is read, in bytes. Client libraries print at most 25. */
const MAX_BYTES = 128;

const POWERS = Float64Array.from({ length: 23 }, (_, i) => 10 ** i);
const DECIMAL = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const INFINITE = /^([+-]?)inf(?:inity)?$/i;

/**
 * The number in the bytes [`from`, `to`) of `page`, as the Prometheus text format writes it: decimal with or without exponent,
 * Inf, NaN. `undefined` for other text, for a number out of the range of a double, and for more than 128 bytes.
 */
export function parseNumber(page: Uint8Array, from: number, to: number): number | undefined {
  const fast = parseShort(page, from, to);
  return Number.isNaN(fast) ? parseAny(page, from, to) : fast;
}

/**
 * Numbers of at most 15 digits and a small exponent; NaN for all others. Mantissa and power of ten are then exact, so one
 * division or multiplication rounds correctly.
 */
function parseShort(page: Uint8Array, from: number, to: number): number {
  let at = from;
  const negative = page[at] === 0x2d;
  if (negative) at++;
  let mantissa = 0;
  let digits = 0;
  let fraction = 0;
  let point = false;
  for (; at < to; at++) {
    const byte = page[at]!;
    if (byte === 0x2e && !point) {
      point = true;
      continue;
    }
    const digit = byte - 0x30;
    if (digit < 0 || digit > 9) break;
    mantissa = mantissa * 10 + digit;
    digits++;
    if (point) fraction++;
  }
  if (digits === 0 || digits > 15) return Number.NaN;
  let exponent = 0;
  if (at < to) {
    if (page[at] !== 0x65) return Number.NaN;
    at++;
    const sign = at < to ? page[at] : 0;
    const down = sign === 0x2d;
    if (down || sign === 0x2b) at++;
    if (at === to || to - at > 3) return Number.NaN;
    for (; at < to; at++) {
      const digit = page[at]! - 0x30;
      if (digit < 0 || digit > 9) return Number.NaN;
      exponent = exponent * 10 + digit;
    }
    if (down) exponent = -exponent;
  }
  exponent -= fraction;
  if (exponent < -22 || exponent > 22) return Number.NaN;
  const size = exponent < 0 ? mantissa / POWERS[-exponent]! : mantissa * POWERS[exponent]!;
  return negative ? -size : size;
}

function parseAny(page: Uint8Array, from: number, to: number): number | undefined {
  if (to <= from || to - from > MAX_BYTES) return undefined;
  let text = "";
  for (let at = from; at < to; at++) text += String.fromCharCode(page[at]!);
  if (DECIMAL.test(text)) {
    const value = Number(text);
    return Number.isFinite(value) ? value : undefined;
  }
  const infinite = INFINITE.exec(text);
  if (infinite !== null) return infinite[1] === "-" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  return text.toLowerCase() === "nan" ? Number.NaN : undefined;
}
