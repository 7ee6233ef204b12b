/** Something that any bytes may be given to. */
export interface FuzzTarget {
  readonly name: string;
  /** Pieces that random bytes would hardly hit upon. */
  readonly tokens: readonly (string | Uint8Array)[];
  /** Inputs of the short form, about a second's worth. */
  readonly shortRuns: number;
  /**
   * Throws when something is wrong with the code under test.
   * @param input belongs to the caller: not kept, not changed
   * @returns what happened, in a few words of few kinds: an input that makes something new happen is worth building upon
   */
  run(input: Buffer): string;
}
