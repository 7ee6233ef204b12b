/** How a `100 Continue` begins; bytes 9 to 11 are the status. */
const START = Buffer.from("HTTP/1.1 100");
const END = Buffer.from("\r\n\r\n");
/** The most bytes of one, with headers: beyond it the parser may say what it makes of them. */
const LONGEST = 8 * 1024;

/**
 * Takes `100 Continue` out of what comes before an answer. Nobody here asks for one, but a server may send it all the same (RFC 9110
 * 15.2: a client must be able to parse it, and may ignore it), and undici breaks the connection over it.
 */
export class InterimFilter {
  /** The first bytes of what may be one. */
  #held: Buffer | undefined;
  #awaiting = false;

  /** A request leaves: what comes next is the head of an answer. */
  expect(): void {
    this.#awaiting = true;
    this.#held = undefined;
  }

  /** Whether bytes have to be shown to `pass`. */
  get awaiting(): boolean {
    return this.#awaiting;
  }

  /** @returns what the parser is to see of these bytes; undefined = nothing yet */
  pass(bytes: Buffer): Buffer | undefined {
    let rest = this.#held === undefined ? bytes : Buffer.concat([this.#held, bytes]);
    this.#held = undefined;
    while (rest.length > 0) {
      const known = Math.min(rest.length, START.length);
      const end = rest.indexOf(END);
      if (rest.compare(START, 0, known, 0, known) !== 0 || (end < 0 && rest.length > LONGEST)) {
        this.#awaiting = false;
        return rest;
      }
      if (end < 0) {
        this.#held = rest;
        return undefined;
      }
      rest = rest.subarray(end + END.length);
    }
    return undefined;
  }
}
