/** What the table of errors says of one code. */
export interface ErrorRow {
  /** Exit status of a command that ends with this error: 2 = the command line or the input it names is wrong, 1 = all else. */
  readonly exit: 1 | 2;
  /** What happened: one sentence. */
  readonly cause: string;
  /** What the operator does: one sentence. */
  readonly remedy: string;
  /** The command line prints the remedy below the message. Left out where the messages of this code say what to do. */
  readonly hint?: true;
}
