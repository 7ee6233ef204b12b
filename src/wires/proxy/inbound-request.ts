import type { Expectation } from "./client-stream.ts";
import type { RequestLines } from "./request-head.ts";

const CONTINUE = /(?:^|\W)100-continue(?:$|\W)/i;

/** A request of HTTP/1.1 whose head is complete, and the bytes of its body that nobody has read yet. */
export class InboundRequest implements RequestLines {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  readonly raw: readonly string[];
  readonly secure: boolean;
  readonly ended = false;
  /** The client accepts that the connection goes on after the answer. */
  readonly keepAlive: boolean;
  /** The last byte has come. */
  complete = false;
  /** Bytes of the body that have come and that nobody has taken. */
  unread = 0;
  #pieces: Buffer[] = [];

  /** @param keepAlive what the parser makes of version and headers @param raw name, value, name, value */
  constructor(
    method: string,
    target: string,
    version: string,
    raw: readonly string[],
    secure: boolean,
    keepAlive: boolean,
  ) {
    this.method = method;
    this.target = target;
    this.version = version;
    this.raw = raw;
    this.secure = secure;
    this.keepAlive = keepAlive;
  }

  /** HTTP/1.0 has no expectations (RFC 9110 10.1.1). */
  get expectation(): Expectation {
    if (this.version !== "1.1") return "none";
    let value: string | undefined;
    for (let i = 0; i < this.raw.length; i += 2) {
      const name = this.raw[i]!;
      if (name.length !== 6 || name.toLowerCase() !== "expect") continue;
      value = value === undefined ? this.raw[i + 1]! : `${value}, ${this.raw[i + 1]!}`;
    }
    if (value === undefined) return "none";
    return CONTINUE.test(value) ? "continue" : "unknown";
  }

  /** A piece of the body has come. */
  add(piece: Buffer): void {
    this.#pieces.push(piece);
    this.unread += piece.length;
  }

  /** The next piece of the body; undefined = none has come. */
  take(): Buffer | undefined {
    const piece = this.#pieces.shift();
    if (piece !== undefined) this.unread -= piece.length;
    return piece;
  }
}
