import type { FeedEvents } from "../feed/feed.ts";

/** The positions of a reader in the rings: what an event id carries. */
export interface Position {
  /** Unix seconds of the last tick. */
  readonly second: number;
  readonly event: number;
  readonly decision: number;
}

/** Events that are the same for all readers of one look, rendered once. */
export class Rendered {
  readonly #texts = new Map<string, string>();

  /** @param make its data; called once */
  of<K extends keyof FeedEvents>(name: K, make: () => FeedEvents[K]): string {
    let text = this.#texts.get(name);
    if (text === undefined) {
      text = JSON.stringify(make());
      this.#texts.set(name, text);
    }
    return text;
  }
}
