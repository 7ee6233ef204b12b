import { Writer } from "../../base/grpc/protobuf.ts";
import type { GrpcStream } from "../../base/grpc/transport.ts";
import { HEADER, HeaderList } from "../../base/inference/headers.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import {
  encodeHeadersReply,
  encodeImmediateReply,
  encodeTimeoutOverride,
  encodeTrailersReply,
  sendBody,
  sendWholeBody,
} from "./encode.ts";
import type { CommonReply, HeaderChanges, Phase, Struct } from "./messages.ts";
import type { WireOptions } from "./wire-options.ts";

/** Replies are encoded one after the other on one thread: all streams share the buffer they are written in. */
const WRITER = new Writer();

const NO_CHANGES: HeaderChanges = {};
const NO_PIECES: readonly Uint8Array[] = [];
const NO_HEADERS = new HeaderList();

/** What a session says on its stream. Whoever calls knows what is legal; this encodes it and minds back-pressure. */
export class Replies {
  readonly #stream: GrpcStream;
  readonly #gate: ReadGate;
  readonly #options: WireOptions;
  /** Sending threw: nothing more can be said. */
  broken = false;
  /** The peer has yet to take what was sent. */
  #queued = false;
  #whenTaken: (() => void) | undefined;

  constructor(stream: GrpcStream, gate: ReadGate, options: WireOptions) {
    this.#stream = stream;
    this.#gate = gate;
    this.#options = options;
  }

  /** The reply to headers. */
  headers(phase: Phase, reply: CommonReply): void {
    this.#send(encodeHeadersReply(WRITER, phase, reply));
  }

  /**
   * Body bytes in FULL_DUPLEX_STREAMED.
   * @param end the last of this direction
   * @param metadata dynamic metadata, on the last message
   */
  chunks(phase: Phase, pieces: readonly Uint8Array[], end: boolean, metadata?: Struct): void {
    let writable: boolean;
    try {
      writable = sendBody(this.#stream, WRITER, phase, pieces, end, metadata);
    } catch (error) {
      this.broken = true;
      throw error;
    }
    if (!writable) this.#waitForReader();
  }

  /** The reply to a body message of the other modes; without pieces the body stays as it is. */
  body(phase: Phase, reply: CommonReply, pieces: readonly Uint8Array[] = NO_PIECES): void {
    let writable: boolean;
    try {
      writable = sendWholeBody(this.#stream, WRITER, phase, pieces, reply);
    } catch (error) {
      this.broken = true;
      throw error;
    }
    if (!writable) this.#waitForReader();
  }

  /** The reply to trailers. */
  trailers(phase: Phase, metadata?: Struct): void {
    this.#send(encodeTrailersReply(WRITER, phase, metadata === undefined ? NO_CHANGES : { dynamicMetadata: metadata }));
  }

  /** Asks for `ms` milliseconds before the next reply. */
  moreTime(ms: number): void {
    this.#send(encodeTimeoutOverride(WRITER, ms));
  }

  /**
   * An answer in place of the model server's; nothing may follow (epp-protocol 9.2, 9.4).
   * @param requestId by which the request is known here
   * @param more further headers of the answer
   */
  immediate(rejection: Rejection, requestId: string, more: HeaderList = NO_HEADERS): void {
    const { emitDroppedReason, emitRequestId, literalAppendAction } = this.#options;
    const dropped = emitDroppedReason ? rejection.droppedHeader : undefined;
    const set = HeaderList.of(dropped === undefined ? [] : [dropped]);
    if (emitRequestId) set.add(HEADER.requestId, requestId);
    for (let i = 0; i < more.length; i++) set.add(more.keys[i]!, more.values[i]!);
    this.#send(
      encodeImmediateReply(WRITER, {
        status: rejection.status,
        body: Buffer.from(rejection.text),
        ...(set.length === 0 ? {} : { set, literalAppendAction }),
      }),
    );
  }

  /** Calls back when the peer has taken everything said so far: at once, unless it reads too slowly. One at a time. */
  whenTaken(callback: () => void): void {
    if (this.#queued) this.#whenTaken = callback;
    else callback();
  }

  #send(bytes: Uint8Array): void {
    try {
      this.#stream.sendFramed(bytes);
    } catch (error) {
      this.broken = true;
      throw error;
    }
  }

  /** Stops the reading of this stream alone: Envoy then stops reading from where the bytes come (envoy-data-plane 1.8). */
  #waitForReader(): void {
    this.#queued = true;
    this.#gate.hold(HOLD.backPressure);
    this.#stream.whenWritable(() => this.#taken());
  }

  #taken(): void {
    this.#queued = false;
    this.#gate.release(HOLD.backPressure);
    const callback = this.#whenTaken;
    this.#whenTaken = undefined;
    callback?.();
  }
}

/** Why the reading of a stream is stopped; each reason is one bit. */
export const HOLD = {
  /** The process holds as many bytes of bodies as it may. */
  budget: 1,
  /** The peer does not take what was sent. */
  backPressure: 2,
} as const;

type Reason = (typeof HOLD)[keyof typeof HOLD];

/** Stops the reading of a stream while any reason holds: one reason that ends does not end another. */
export class ReadGate {
  readonly #stream: GrpcStream;
  #reasons = 0;

  constructor(stream: GrpcStream) {
    this.#stream = stream;
  }

  hold(reason: Reason): void {
    if (this.#reasons === 0) this.#stream.pause();
    this.#reasons |= reason;
  }

  /** Without effect when the reason does not hold. */
  release(reason: Reason): void {
    if ((this.#reasons & reason) === 0) return;
    this.#reasons &= ~reason;
    if (this.#reasons === 0) this.#stream.resume();
  }
}
