/** The body that is sent instead of the payload. */
export interface TransformedBody {
  readonly body: Uint8Array;
  readonly contentType: string;
}

/**
 * One transform, or all of a process in their order (async-processor 6.6). The message's owner reads its error messages, so
 * they hold no secrets.
 */
export interface RequestTransform {
  /** Called before the gate of the worker pool is asked. @param deadline Unix seconds @throws when the message could never be sent */
  validate(payload: Uint8Array, metadata: Readonly<Record<string, string>>, deadline: number): void;
  /** Undefined = not for this transform: the payload goes as it is. Changes neither argument. @throws as `validate` */
  transform(payload: Uint8Array, metadata: Readonly<Record<string, string>>): TransformedBody | undefined;
}
