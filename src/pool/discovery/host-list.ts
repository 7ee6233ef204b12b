import { readAddress } from "../endpoints/address.ts";

/** The most hosts of one expression, and the most characters of its text. */
export const MAX_HOSTS = 4096;
export const MAX_HOST_LIST = 64 * 1024;

/** The hosts of a host list; or the first fault in its text, with the offset where it is. */
export type HostList = { readonly hosts: readonly string[] } | { readonly problem: string; readonly at: number };

/** A part of a name: the texts that can stand there. */
type Part = readonly string[];

/** A fault in the text. */
class Fault extends Error {
  readonly at: number;

  constructor(at: number, problem: string) {
    super(problem);
    this.at = at;
  }
}

/**
 * Expands a host list as Slurm writes them: `gpu[01-03,07],login1`. Commas and white space separate names. A name may have
 * several brackets, and text before, between and behind them: `gpu[1-2]-[0-3].cluster`. The last bracket counts fastest. A
 * number with zeros in front keeps its width. A host that comes twice counts once.
 * @returns at most `MAX_HOSTS` hosts in lower case; a longer list is a fault, and so is an empty one
 */
export function expandHosts(text: string): HostList {
  if (text.length > MAX_HOST_LIST)
    return { problem: `the host list is longer than ${MAX_HOST_LIST} characters`, at: 0 };
  try {
    const hosts = new Reader(text).read();
    return hosts.length === 0 ? { problem: "the host list is empty", at: 0 } : { hosts };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { problem: error.message, at: error.at };
  }
}

class Reader {
  readonly #text: string;
  readonly #hosts = new Set<string>();
  /** The names so far, those that came twice included. */
  #count = 0;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  read(): string[] {
    for (;;) {
      this.#skip(/[,\s]*/y);
      if (this.#at === this.#text.length) return [...this.#hosts];
      this.#name();
    }
  }

  #name(): void {
    const begin = this.#at;
    const parts: Part[] = [];
    let size = 1;
    for (;;) {
      const literal = this.#skip(/[^,\s[\]]*/y);
      if (literal !== "") parts.push([literal]);
      const next = this.#text[this.#at];
      if (next === "]") throw new Fault(this.#at, "`]` has no `[` before it");
      if (next !== "[") break;
      const numbers = this.#bracket();
      size *= numbers.length;
      this.#bound(begin, this.#count + size);
      parts.push(numbers);
    }
    this.#count += size;
    this.#bound(begin, this.#count);
    for (const name of combinations(parts)) {
      const read = readAddress(name, "lenient");
      if ("problem" in read) throw new Fault(begin, `a host ${read.problem}`);
      this.#hosts.add(read.address);
    }
  }

  /** Reads `[01-03,07]`. */
  #bracket(): Part {
    const open = this.#at++;
    const numbers: string[] = [];
    for (;;) {
      const at = this.#at;
      const range = this.#skip(/[^,\s[\]]*/y);
      this.#range(range, at, numbers);
      const next = this.#text[this.#at];
      if (next === undefined) throw new Fault(open, "`[` has no `]` behind it");
      if (next === "[" || /\s/.test(next)) throw new Fault(this.#at, "write only numbers between `[` and `]`");
      this.#at++;
      if (next === "]") return numbers;
    }
  }

  /** Adds the numbers of `07` or `01-03`. */
  #range(text: string, at: number, into: string[]): void {
    const match = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(text);
    if (match === null)
      throw new Fault(at, `${JSON.stringify(text.slice(0, 40))} is not a number or a range such as 01-16`);
    const [, first = "", last = first] = match;
    const [low, high] = [Number(first), Number(last)];
    if (high < low) throw new Fault(at, `the range ${text} ends before it begins`);
    this.#bound(at, into.length + high - low + 1);
    const isPadded = first.length > 1 && first.startsWith("0");
    if (last.startsWith("0") && last.length > 1 && last.length !== first.length)
      throw new Fault(at, `the first and last number of the range ${text} need the same number of digits`);
    for (let n = low; n <= high; n++) into.push(isPadded ? String(n).padStart(first.length, "0") : String(n));
  }

  #bound(at: number, hosts: number): void {
    if (hosts > MAX_HOSTS) throw new Fault(at, `the host list has more than ${MAX_HOSTS} hosts`);
  }

  /** Goes behind the text that fits here, and returns it. */
  #skip(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0] ?? "";
    this.#at += found.length;
    return found;
  }
}

/** Each way to take one text of each part; the last part changes fastest. */
function combinations(parts: readonly Part[]): readonly string[] {
  return parts.reduce<readonly string[]>(
    (names, part) => names.flatMap((name) => part.map((text) => name + text)),
    [""],
  );
}
