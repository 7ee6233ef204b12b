const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

const WORD = 1;
const SPACE = 2;
/**
 * Class of each ASCII character: part of a word, white space, or (0) a separate token. Characters beyond ASCII count as words.
 */
const CLASS = new Uint8Array(128);
for (let unit = 0; unit < 128; unit++) {
  const char = String.fromCharCode(unit);
  CLASS[unit] = /\w/.test(char) ? WORD : /\s/.test(char) ? SPACE : 0;
}

/** Called with the bounds of one piece of the text and with its id; the bounds are indexes of UTF-16 units. */
type OnPiece = (start: number, end: number, id: number) => void;

/**
 * The token ids of a text (envoy-data-plane 5.3, "Tokens"). A token is a word or a single other character, with the white space
 * that follows it (`(\w+|\W)\s*`, letters beyond ASCII counting as \w). White space at the start is a separate token. The id is
 * the 32-bit FNV-1a of the token's UTF-8 bytes. The joined pieces are the text again.
 */
export function tokenize(text: string): Uint32Array {
  let ids = new Uint32Array(Math.max(16, text.length >> 2));
  let count = 0;
  scan(text, (_start, _end, id) => {
    if (count === ids.length) {
      const larger = new Uint32Array(2 * ids.length);
      larger.set(ids);
      ids = larger;
    }
    ids[count++] = id;
  });
  return ids.slice(0, count);
}

/** The tokens of a text as strings: `tokenizePieces(text).join("") === text`. */
export function tokenizePieces(text: string): string[] {
  const pieces: string[] = [];
  scan(text, (start, end) => pieces.push(text.slice(start, end)));
  return pieces;
}

function scan(text: string, onPiece: OnPiece): void {
  const { length } = text;
  let at = 0;
  while (at < length) {
    const start = at;
    let hash = FNV_OFFSET;
    let inWord = true;
    let inSpace = false;
    while (at < length) {
      const unit = text.charCodeAt(at);
      const kind = unit < 128 ? CLASS[unit]! : WORD;
      if (kind === SPACE) inSpace = true;
      else if (at > start && (inSpace || kind !== WORD || !inWord)) break;
      else if (kind !== WORD) inWord = false;
      if (unit < 128) {
        hash = Math.imul(hash ^ unit, FNV_PRIME);
        at++;
      } else {
        const point = text.codePointAt(at)!;
        hash = hashPoint(hash, point);
        at += point > 0xffff ? 2 : 1;
      }
    }
    onPiece(start, at, hash >>> 0);
  }
}

/** Continues an FNV-1a with the UTF-8 bytes of a code point >= 128; a lone surrogate counts as U+FFFD, as on the wire. */
function hashPoint(hash: number, point: number): number {
  const p = point >= 0xd800 && point <= 0xdfff ? 0xfffd : point;
  let h = hash;
  if (p < 0x800) {
    h = Math.imul(h ^ (0xc0 | (p >> 6)), FNV_PRIME);
  } else {
    if (p < 0x10000) {
      h = Math.imul(h ^ (0xe0 | (p >> 12)), FNV_PRIME);
    } else {
      h = Math.imul(h ^ (0xf0 | (p >> 18)), FNV_PRIME);
      h = Math.imul(h ^ (0x80 | ((p >> 12) & 0x3f)), FNV_PRIME);
    }
    h = Math.imul(h ^ (0x80 | ((p >> 6) & 0x3f)), FNV_PRIME);
  }
  return Math.imul(h ^ (0x80 | (p & 0x3f)), FNV_PRIME);
}
