import { startsWith } from "./media-parts.ts";

export interface Resolution {
  /** Pixels, from 1 up. */
  readonly width: number;
  readonly height: number;
}

/** Segments looked at on the way to a JPEG file's dimensions. */
const MAX_SEGMENTS = 256;
/** Characters within which the data of a `data:` address begins. */
const LONGEST_MEDIA_TYPE = 128;

const SEXTETS = new Int8Array(256).fill(-1);
for (const [value, letter] of [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].entries())
  SEXTETS[letter.charCodeAt(0)] = value;

/**
 * The dimensions of a PNG, GIF or JPEG file that is given as a `data:` address or as bare base64, read from its head
 * alone.
 * @returns undefined for addresses of other kinds, other formats and damaged files
 */
export function imageSize(body: Uint8Array, start: number, end: number): Resolution | undefined {
  const data = startsWith(body, start, end, "data:") ? base64Begin(body, start, end) : start;
  if (data < 0) return undefined;
  const at = (index: number): number => byteAt(body, data, end, index);
  const size = sizeOf(at);
  return size !== undefined && size.width > 0 && size.height > 0 ? size : undefined;
}

function sizeOf(at: (index: number) => number): Resolution | undefined {
  const u16 = (index: number): number => at(index) * 256 + at(index + 1);
  if (u16(0) === 0x8950 && u16(2) === 0x4e47)
    return { width: u16(16) * 65_536 + u16(18), height: u16(20) * 65_536 + u16(22) };
  if (u16(0) === 0x4749 && u16(2) === 0x4638) return { width: at(6) + 256 * at(7), height: at(8) + 256 * at(9) };
  if (u16(0) !== 0xffd8) return undefined;
  let index = 2;
  for (let segment = 0; segment < MAX_SEGMENTS && at(index) === 0xff; segment++) {
    const marker = at(index + 1);
    // Fill bytes, and markers without a length.
    if (marker === 0xff) index++;
    else if (marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)) index += 2;
    else if (marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc)
      return { width: u16(index + 7), height: u16(index + 5) };
    else index += 2 + u16(index + 2);
  }
  return undefined;
}

/** Offset of the first character of the data; -1 when it is not base64. */
function base64Begin(body: Uint8Array, start: number, end: number): number {
  const comma = body.indexOf(0x2c, start);
  if (comma < 0 || comma >= Math.min(end, start + LONGEST_MEDIA_TYPE)) return -1;
  return comma - start >= 7 && startsWith(body, comma - 7, comma, ";base64") ? comma + 1 : -1;
}

/** Byte `index` of base64 text; NaN where there is none, which no comparison above takes for anything. */
function byteAt(body: Uint8Array, start: number, end: number, index: number): number {
  const rest = index % 3;
  const first = start + Math.floor(index / 3) * 4 + rest;
  if (first + 1 >= end) return Number.NaN;
  const high = SEXTETS[body[first]!]!;
  const low = SEXTETS[body[first + 1]!]!;
  if (high < 0 || low < 0) return Number.NaN;
  const shift = 2 * rest;
  return ((high << (2 + shift)) & 0xff) | (low >> (4 - shift));
}
