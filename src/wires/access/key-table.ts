import { timingSafeEqual } from "node:crypto";
import type { Caller } from "../../base/inference/caller.ts";
import type { KeyEntry } from "./key-entry.ts";
import { digestOf, idIn } from "./key-text.ts";

/** Why a key does not count. */
export type KeyFault = "unknown" | "expired" | "revoked";

interface Row {
  readonly caller: Caller;
  readonly digest: Buffer;
  readonly previous: { readonly digest: Buffer; readonly until: number } | undefined;
  readonly expires: number;
  readonly revoked: boolean;
}

/** The priority of a key for background requests that states no objective and no priority: below 0, that of requests without one. */
const BACKGROUND_PRIORITY = -1;
/** Compared in place of a digest that there is none of. No key has it: that would be a preimage of SHA-256. */
const NO_DIGEST = Buffer.alloc(32);

/** The keys of one file, by their public id. */
export class KeyTable {
  readonly #rows = new Map<string, Row>();
  /** The priorities that the keys state. */
  readonly priorities = new Set<number>();
  /** Whether requests of a key use only the room that others leave. */
  readonly hasBackground: boolean;

  constructor(entries: readonly KeyEntry[]) {
    for (const entry of entries) {
      const row = rowOf(entry);
      this.#rows.set(entry.id, row);
      if (row.caller.priority !== undefined) this.priorities.add(row.caller.priority);
    }
    this.hasBackground = entries.some(({ background }) => background);
  }

  /**
   * The caller whose key `text` is. The work is the same for a known id and an unknown one, so the time of the answer does not
   * tell which ids exist: one digest, two compares that run over all bytes.
   * @param now Unix milliseconds
   */
  find(text: string, now: number): Caller | KeyFault {
    const id = idIn(text);
    // Only a text that is no key at all takes less: its form is public.
    if (id === undefined) return "unknown";
    const digest = digestOf(text);
    const row = this.#rows.get(id);
    const isCurrent = timingSafeEqual(digest, row?.digest ?? NO_DIGEST);
    const isPrevious = timingSafeEqual(digest, row?.previous?.digest ?? NO_DIGEST);
    // A holder of the secret may learn why it does not count; nobody else learns that the id exists.
    if (row === undefined || !(isCurrent || isPrevious)) return "unknown";
    if (row.revoked) return "revoked";
    if (now >= row.expires) return "expired";
    return isCurrent || now < row.previous!.until ? row.caller : "expired";
  }
}

function rowOf(entry: KeyEntry): Row {
  const { id, name, models, objective, fairnessId, choosesFlow, background, previous } = entry;
  const usual = background && objective === undefined ? BACKGROUND_PRIORITY : undefined;
  return {
    caller: {
      ...{ id, name, objective, priority: entry.priority ?? usual, choosesFlow, background },
      models: models && new Set(models),
      fairnessId,
    },
    digest: digestIn(entry.hash),
    previous: previous && { digest: digestIn(previous.hash), until: previous.until },
    expires: entry.expires ?? Number.POSITIVE_INFINITY,
    revoked: entry.revoked !== undefined,
  };
}

function digestIn(hash: string): Buffer {
  return Buffer.from(hash.slice("sha256:".length), "hex");
}
