/** The answer of `GET /debug/queues/messages`. */
export interface MessagesFeed {
  readonly queue: string;
  /** Wall-clock milliseconds. */
  readonly at: number;
  /** True: this client may cancel messages. */
  readonly mayCancel: boolean;
  /** The next messages of the queue in the order of dispatch, at most 20. */
  readonly messages: readonly MessageFeed[];
}

/** A message that waits in a queue; its contents stay in the process. */
export interface MessageFeed {
  /** Null = the entry cannot be read. */
  readonly id: string | null;
  /** Unix seconds; null = not known. */
  readonly deadline: number | null;
  readonly created: number | null;
  readonly retries: number;
  readonly bytes: number;
}

/** The body of `POST /debug/queues/cancel`. */
export interface MessageCancel {
  readonly id: string;
}

/** Its answer: the message is marked. It ends with CANCELLED, unless a model server already has it. */
export interface MessageMarked {
  readonly id: string;
}
