import type { ExpositionReader, ExpositionSample } from "../../../base/telemetry/exposition-reader.ts";

/** One page in this many is read whole although the layout is known. */
const WHOLE_EVERY = 32;
/** Bytes that a family may move from one page to the next: numbers change their width. */
const DRIFT = 1024;
/** Bytes. Families that begin closer together than this are read as one stretch. */
const GAP = 1024;
/** Bytes of the longest stretch that is kept for comparison. */
const MAX_KEPT = 16 * 1024;

const NEXT_FAMILY = Buffer.from("\n#");
const NOTHING = Buffer.alloc(0);

/** Takes the samples of a page. */
export interface SampleSink {
  /** The samples of the name with this index are void. */
  reset(index: number): void;
  /** A sample of the name `sample.index`, valid only until this returns. */
  add(sample: ExpositionSample): void;
}

/** Where one family begins: at the newline before its `# TYPE` line. */
interface Anchor {
  readonly index: number;
  readonly marker: Buffer;
  offset: number;
}

/** Wanted families that are close together. */
interface Stretch {
  readonly anchors: readonly Anchor[];
  /** Number of samples in the stretch. Another number means that the page has changed its shape. */
  samples: number;
  /** Bytes of the stretch on the last page. */
  bytes: Buffer;
}

/**
 * Remembers the places of the wanted families on an endpoint's page. Most pages are then read in these places only, and only
 * where a byte has changed: of vLLM's 63 KB all but 3 are not even touched. A server prints its families in one order, and all
 * samples of a family follow its `# TYPE` line (text format 0.0.4). A page that breaks either rule, or has no `# TYPE` lines,
 * is always read whole. Every 32nd page is also read whole, so a new family is seen by then.
 */
export class PageLayout {
  readonly #markers: readonly Buffer[];
  readonly #sink: SampleSink;
  readonly #seen: Uint8Array;
  /** In the order of the page; empty while the layout is not reliable. */
  #stretches: readonly Stretch[] = [];
  #untilWhole = 0;
  readonly #add = (sample: ExpositionSample): void => {
    this.#seen[sample.index] = 1;
    this.#sink.add(sample);
  };

  /** @param names sample names, in the order of the readers' names */
  constructor(names: readonly string[], sink: SampleSink) {
    this.#markers = names.map((name) => Buffer.from(`\n# TYPE ${name} `));
    this.#seen = new Uint8Array(names.length);
    this.#sink = sink;
  }

  /** Updates the sink from the first `length` bytes of `bytes`. */
  read(reader: ExpositionReader, bytes: Uint8Array, length: number): void {
    const page = Buffer.from(bytes.buffer, bytes.byteOffset, length);
    if (this.#untilWhole-- > 0 && this.#stretches.length > 0 && this.#readStretches(reader, page)) return;
    for (let index = 0; index < this.#markers.length; index++) this.#sink.reset(index);
    this.#seen.fill(0);
    const samples = reader.read(page, length, this.#add);
    // When the page had no layout to learn, or the learned layout has just failed, the next attempt can wait.
    if (this.#untilWhole < 0 || this.#stretches.length > 0) this.#learn(reader, page, samples);
  }

  /** Reads the next page whole and learns its layout again. */
  forget(): void {
    this.#stretches = [];
    this.#untilWhole = 0;
  }

  /** @returns false when a family is not in its place */
  #readStretches(reader: ExpositionReader, page: Buffer): boolean {
    let moved = 0;
    for (const stretch of this.#stretches) {
      const { anchors } = stretch;
      const first = anchors[0]!;
      const start = find(page, first.marker, first.offset + moved);
      if (start < 0) return false;
      moved = start - first.offset;
      first.offset = start;
      const last = anchors[anchors.length - 1]!;
      if (last !== first) {
        const at = find(page, last.marker, last.offset + moved);
        if (at < start) return false;
        moved = at - last.offset;
        last.offset = at;
      }
      const end = endOfFamily(page, last);
      if (end - start === stretch.bytes.length && page.compare(stretch.bytes, 0, end - start, start, end) === 0)
        continue;
      for (const { index } of anchors) this.#sink.reset(index);
      // Begins at the line itself, behind the newline.
      const text = page.subarray(start + 1, end);
      if (reader.read(text, text.length, this.#add) !== stretch.samples) return false;
      keep(stretch, page, start, end);
    }
    return true;
  }

  /** Finds the families that have samples, and proves on this page that together they hold every sample. */
  #learn(reader: ExpositionReader, page: Buffer, samples: number): void {
    this.#untilWhole = WHOLE_EVERY - 1;
    const known = new Map(
      this.#stretches.flatMap(({ anchors }) => anchors).map(({ index, offset }) => [index, offset]),
    );
    this.#stretches = [];
    const anchors: Anchor[] = [];
    for (const [index, marker] of this.#markers.entries()) {
      if (this.#seen[index] === 0) continue;
      const offset = page.indexOf(marker, Math.max(0, (known.get(index) ?? 0) - DRIFT));
      if (offset < 0) return;
      anchors.push({ index, marker, offset });
    }
    anchors.sort((a, b) => a.offset - b.offset);
    const stretches = inStretches(anchors);
    let counted = 0;
    for (const stretch of stretches) {
      const start = stretch.anchors[0]!.offset;
      const end = endOfFamily(page, stretch.anchors.at(-1)!);
      stretch.samples = reader.read(page.subarray(start + 1, end), end - start - 1, ignore);
      counted += stretch.samples;
      keep(stretch, page, start, end);
    }
    if (counted === samples) this.#stretches = stretches;
  }
}

function inStretches(anchors: readonly Anchor[]): Stretch[] {
  const groups: Anchor[][] = [];
  let before = Number.NEGATIVE_INFINITY;
  for (const anchor of anchors) {
    if (anchor.offset - before > GAP) groups.push([]);
    groups.at(-1)!.push(anchor);
    before = anchor.offset;
  }
  return groups.map((group) => ({ anchors: group, samples: 0, bytes: NOTHING }));
}

function keep(stretch: Stretch, page: Buffer, start: number, end: number): void {
  if (end - start > MAX_KEPT) stretch.bytes = NOTHING;
  else if (stretch.bytes.length === end - start) page.copy(stretch.bytes, 0, start, end);
  else stretch.bytes = Buffer.from(page.subarray(start, end));
}

function endOfFamily(page: Buffer, anchor: Anchor): number {
  const next = page.indexOf(NEXT_FAMILY, anchor.offset + anchor.marker.length);
  return next < 0 ? page.length : next + 1;
}

/** The place of the marker: most often the expected one, else within `DRIFT` bytes of it; -1 if it is in neither. */
function find(page: Buffer, marker: Buffer, expected: number): number {
  if (isAt(page, marker, expected)) return expected;
  const found = page.indexOf(marker, Math.max(0, expected - DRIFT));
  return found <= expected + DRIFT ? found : -1;
}

function isAt(page: Buffer, marker: Buffer, at: number): boolean {
  if (at < 0 || at + marker.length > page.length) return false;
  // Compares from the end, because the beginnings of all markers are alike.
  for (let i = marker.length - 1; i >= 0; i--) if (page[at + i] !== marker[i]) return false;
  return true;
}

function ignore(): void {}
