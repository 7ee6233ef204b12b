import type { ServerResponse } from "node:http";
import type { Clock, Timer } from "../../base/clock/clock.ts";

/** Writes a response body: as fast as the client reads, or at a set pace. */
export interface BodyWriter {
  /** Returns false when the client (or the pace) lags behind: write more only after `onDrain`. */
  write(text: string): boolean;
  /** Ends the body once everything written has gone out. */
  end(): void;
  /** Calls back once everything written so far has been handed to the operating system. */
  flushed(callback: () => void): void;
  /** Nothing more is wanted: the client is gone. */
  stop(): void;
}

/** @param onDrain called when writing may go on after `write` returned false */
export function bodyWriter(
  response: ServerResponse,
  bytesPerSecond: number,
  clock: Clock,
  onDrain: () => void,
): BodyWriter {
  return bytesPerSecond > 0
    ? new PacedWriter(response, bytesPerSecond, clock, onDrain)
    : new DirectWriter(response, onDrain);
}

class DirectWriter implements BodyWriter {
  readonly #response: ServerResponse;

  constructor(response: ServerResponse, onDrain: () => void) {
    this.#response = response;
    response.on("drain", onDrain);
  }

  write(text: string): boolean {
    return this.#response.write(text);
  }

  end(): void {
    this.#response.end();
  }

  flushed(callback: () => void): void {
    this.#response.write("", callback);
  }

  stop(): void {}
}

/** Twenty portions a second; what waits is bounded because writers stop at false. */
class PacedWriter implements BodyWriter {
  static readonly #PERIOD_MS = 50;
  readonly #response: ServerResponse;
  readonly #portion: number;
  readonly #period: number;
  readonly #clock: Clock;
  readonly #onDrain: () => void;
  #pending = Buffer.alloc(0);
  #timer: Timer | undefined;
  #ending = false;
  #onFlushed: (() => void) | undefined;

  constructor(response: ServerResponse, bytesPerSecond: number, clock: Clock, onDrain: () => void) {
    this.#response = response;
    this.#clock = clock;
    this.#onDrain = onDrain;
    this.#portion = Math.max(1, Math.round((bytesPerSecond * PacedWriter.#PERIOD_MS) / 1000));
    this.#period = (this.#portion / bytesPerSecond) * 1000;
    response.on("drain", () => this.#schedule());
  }

  write(text: string): boolean {
    this.#pending = Buffer.concat([this.#pending, Buffer.from(text)]);
    this.#schedule();
    return false;
  }

  end(): void {
    this.#ending = true;
    this.#schedule();
  }

  flushed(callback: () => void): void {
    this.#onFlushed = callback;
    this.#schedule();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#pending = Buffer.alloc(0);
  }

  #schedule(): void {
    this.#timer ??= this.#clock.after(this.#period, () => this.#send());
  }

  #send(): void {
    this.#timer = undefined;
    let writable = true;
    if (this.#pending.length > 0) {
      writable = this.#response.write(this.#pending.subarray(0, this.#portion));
      this.#pending = this.#pending.subarray(this.#portion);
    }
    if (this.#pending.length > 0) {
      // A client slower than the pace: "drain" goes on from here.
      if (writable) this.#schedule();
    } else if (this.#ending) {
      this.#response.end();
    } else if (this.#onFlushed) {
      this.#response.write("", this.#onFlushed);
    } else {
      this.#onDrain();
    }
  }
}
