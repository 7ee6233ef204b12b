/** The body that is sent instead of the payload. */
export interface TransformedBody {
  readonly body: Uint8Array;
  readonly contentType: string;
}

/** The transforms of a process, asked in their order (async-processor 6.6). Both throw SluiceError TRANSFORM. */
export interface TransformChain {
  /** Asks all of them, before the message waits for a worker. @param deadline Unix seconds */
  validate(payload: Uint8Array, metadata: Readonly<Record<string, string>>, deadline: number): void;
  /** The first that claims the message wins; undefined = the payload goes as it is. */
  transform(payload: Uint8Array, metadata: Readonly<Record<string, string>>): TransformedBody | undefined;
}
