import { Writer } from "../../base/grpc/protobuf.ts";
import type { GrpcStream } from "../../base/grpc/transport.ts";
import { HEADER, HeaderList } from "../../base/inference/headers.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import {
  encodeHeadersReply,
  encodeImmediateReply,
  encodeTimeoutOverride,
  encodeTrailersReply,
  MAX_BODY_CHUNK,
  sendBody,
  sendChunk,
  sendWholeBody,
} from "./encode.ts";
import type { CommonReply, EncodedStruct, HeaderChanges, Phase, Struct } from "./messages.ts";
import type { WireOptions } from "./wire-options.ts";

/** One thread encodes the replies one after the other, so all streams share one buffer for writing. */
const WRITER = new Writer();

const NO_CHANGES: HeaderChanges = {};
const NO_PIECES: readonly Uint8Array[] = [];
const NO_HEADERS = new HeaderList();

/**
 * The replies of a session on its stream. The caller knows which reply is legal; this class encodes it and handles
 * back-pressure.
 */
export class Replies {
  readonly #stream: GrpcStream;
  readonly #gate: ReadGate;
  readonly #options: WireOptions;
  /** A send threw an error: no further reply is possible. */
  broken = false;
  /** The peer has not yet taken all sent bytes. */
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
   * @param end true for the last message of this direction
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

  /** One piece of a body in FULL_DUPLEX_STREAMED, without metadata. Parameters as of `chunks`. */
  chunk(phase: Phase, piece: Uint8Array, end: boolean): void {
    if (piece.length > MAX_BODY_CHUNK) {
      this.chunks(phase, [piece], end);
      return;
    }
    let writable: boolean;
    try {
      writable = sendChunk(this.#stream, WRITER, phase, piece, end);
    } catch (error) {
      this.broken = true;
      throw error;
    }
    if (!writable) this.#waitForReader();
  }

  /** The reply to a body message of the other modes; without pieces the body stays unchanged. */
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
  trailers(phase: Phase, metadata?: Struct | EncodedStruct): void {
    this.#send(encodeTrailersReply(WRITER, phase, metadata === undefined ? NO_CHANGES : { dynamicMetadata: metadata }));
  }

  /** Asks for `ms` milliseconds before the next reply. */
  moreTime(ms: number): void {
    this.#send(encodeTimeoutOverride(WRITER, ms));
  }

  /**
   * An answer in place of the model server's answer; it must be the last reply (epp-protocol 9.2, 9.4).
   * @param requestId the id of the request in logs and decision records
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

  /**
   * Calls back when the peer has taken all replies so far: immediately, unless the peer reads too slowly. Takes one callback at
   * a time.
   */
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

  /** Stops reading this stream alone. Envoy then stops reading from the sender of the bytes (envoy-data-plane 1.8). */
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

/** The reasons why the reading of a stream is stopped; each reason is one bit. */
export const HOLD = {
  /** The bodies in this process fill the byte budget. */
  budget: 1,
  /** The peer does not read the replies fast enough. */
  backPressure: 2,
} as const;

type Reason = (typeof HOLD)[keyof typeof HOLD];

/** Stops the reading of a stream while at least one reason holds. The end of one reason does not end another. */
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

  /** Does nothing when the reason does not hold. */
  release(reason: Reason): void {
    if ((this.#reasons & reason) === 0) return;
    this.#reasons &= ~reason;
    if (this.#reasons === 0) this.#stream.resume();
  }
}
