import { usageFromJson } from "./json-usage.ts";
import { type Usage, type UsageReader, withTotal } from "./usage.ts";

/** Bytes; the usage of a longer answer is not read (spec/decisions.md). */
export const MAX_OBSERVED_BODY = 4 * 1024 * 1024;

/** Reads the usage of an answer that is one JSON document, at its end; keeps its chunks by reference until then. */
export class JsonUsageReader implements UsageReader {
  /** Undefined once read or given up. */
  #chunks: Uint8Array[] | undefined = [];
  #length = 0;
  #usage: Usage | undefined;

  get usage(): Usage | undefined {
    return this.#usage;
  }

  get holding(): boolean {
    return this.#chunks !== undefined;
  }

  feed(chunk: Uint8Array): void {
    if (this.#chunks === undefined || chunk.length === 0) return;
    this.#length += chunk.length;
    if (this.#length > MAX_OBSERVED_BODY) this.drop();
    else this.#chunks.push(chunk);
  }

  finish(): void {
    const chunks = this.#chunks;
    this.#chunks = undefined;
    if (chunks === undefined || chunks.length === 0) return;
    const usage = usageFromJson(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks));
    this.#usage = usage === undefined ? undefined : withTotal(usage);
  }

  drop(): void {
    this.#chunks = undefined;
  }
}
