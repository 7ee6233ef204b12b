/** The row of one code in the table of errors. */
export interface ErrorRow {
  /** Exit status of a command that ends with this error: 2 = the command line or the input it names is wrong, 1 = all else. */
  readonly exit: 1 | 2;
  /** The cause: one sentence. */
  readonly cause: string;
  /** The remedy for the operator: one sentence. */
  readonly remedy: string;
  /** The command line prints the remedy below the message. Left out where the messages of this code already contain it. */
  readonly hint?: true;
}
