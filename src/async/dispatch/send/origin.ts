import { Line, type LineSettings } from "./line.ts";

/**
 * The kept connections to one scheme, host and port. The one that was used last is used next, so that those nobody needs
 * any more grow old and close.
 */
export class Origin {
  /** `http://host:port`. */
  readonly name: string;
  readonly #settings: LineSettings;
  readonly #limit: number;
  readonly #idle: Line[] = [];
  /** Connections with a request. */
  #busy = 0;

  /** @param limit idle connections that are kept, >= 1 */
  constructor(name: string, settings: LineSettings, limit: number) {
    this.name = name;
    this.#settings = settings;
    this.#limit = limit;
  }

  get busy(): number {
    return this.#busy;
  }

  get idle(): number {
    return this.#idle.length;
  }

  /** A connection for one request; `give` or `drop` follows. */
  take(): Line {
    this.#busy++;
    return this.#idle.pop() ?? new Line(this.name, this.#settings, this.#disconnected);
  }

  /** The request on it has come to a good end. */
  give(line: Line): void {
    this.#busy--;
    if (this.#idle.length < this.#limit) this.#idle.push(line);
    else line.destroy();
  }

  /** Cuts a connection whose request did not come to a good end. */
  drop(line: Line): void {
    this.#busy--;
    line.destroy();
  }

  /** Cuts the idle connections. */
  close(): void {
    for (const line of this.#idle.splice(0)) line.destroy();
  }

  /** The server or the keep-alive time has ended an idle connection. One with a request reconnects or fails by itself. */
  readonly #disconnected = (line: Line): void => {
    const at = this.#idle.indexOf(line);
    if (at < 0) return;
    this.#idle.splice(at, 1);
    line.destroy();
  };
}
