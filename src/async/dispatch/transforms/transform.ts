/** The body that is sent instead of the payload. */
export interface TransformedBody {
  readonly body: Uint8Array;
  readonly contentType: string;
}

/**
 * One transform, or all of a process in their order (async-processor 6.6). What it throws is told to the message's owner, so
 * its messages hold no secrets.
 */
export interface RequestTransform {
  /** Called before the message waits for a worker. @param deadline Unix seconds @throws when the message could never be sent */
  validate(payload: Uint8Array, metadata: Readonly<Record<string, string>>, deadline: number): void;
  /** Undefined = not this transform's message: the payload goes as it is. Changes neither argument. @throws as `validate` */
  transform(payload: Uint8Array, metadata: Readonly<Record<string, string>>): TransformedBody | undefined;
}
