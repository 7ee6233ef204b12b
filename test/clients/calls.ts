/** The libraries, each of which has a client on npm and one on PyPI. */
export type Library = "openai" | "anthropic";

/** One call of a method of a client, in terms that both languages share. */
export interface Call {
  readonly library: Library;
  /** With its groups, in the words of Python: `chat.completions.create`. */
  readonly method: string;
  /** The arguments by name. */
  readonly params?: Readonly<Record<string, unknown>>;
  /** Arguments by position, before `params`. */
  readonly args?: readonly unknown[];
  readonly headers?: Readonly<Record<string, string>>;
  /** Leaves the stream after so many events. */
  readonly stopAfter?: number;
  /** The client's helper collects the stream, and checks its events by that. */
  readonly helper?: boolean;
  /** The result is a page of a list; the client asks for all pages. */
  readonly list?: boolean;
  /** Retries by the client, default 0. */
  readonly retries?: number;
  /** The name of a key of the gateway, default `team`; any other text is sent as it is. */
  readonly key?: string;
  /** Milliseconds. */
  readonly timeoutMs?: number;
  /** By the async client of Python. */
  readonly async?: boolean;
}

/** A call, and where it goes. */
export interface PlacedCall extends Call {
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly timeoutMs: number;
}

/** What an exception says. */
export interface Raised {
  readonly name: string;
  readonly status?: number | null;
  readonly code?: string | null;
  readonly type?: string | null;
  readonly param?: string | null;
  readonly message: string;
  readonly requestId?: string | null;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>> | null;
}

/** What a client made of a call. */
export interface Outcome {
  // biome-ignore lint/suspicious/noExplicitAny: the shapes of a dozen APIs
  readonly value?: any;
  // biome-ignore lint/suspicious/noExplicitAny: the same
  readonly events?: readonly any[];
  readonly error?: Raised;
  readonly requestId?: string | null;
}

/** A language with its clients. */
export interface Driver {
  readonly language: "TypeScript" | "Python";
  perform(call: PlacedCall): Promise<Outcome>;
  close(): void;
}
