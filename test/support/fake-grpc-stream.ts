import type { GrpcStream } from "../../src/base/grpc/transport.ts";

/**
 * A gRPC stream without a network. What is sent is kept by reference and cut into messages when it is read, so a sender
 * that writes into its bytes afterwards is found out.
 */
export class FakeGrpcStream implements GrpcStream {
  readonly path = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
  readonly encoding = "identity";
  /** How the call was ended; undefined while it runs. */
  status: number | undefined;
  statusMessage: string | undefined;
  /** What the contract of `GrpcStream` forbids and was done all the same. */
  readonly breaches: string[] = [];
  /** Delivery of messages is stopped. */
  paused = false;
  /** Messages given back so far. */
  recycled = 0;
  /** Pauses so far. */
  pauses = 0;
  /** The peer reads too slowly: sends return false. */
  full = false;
  /** Called with the bytes of each send; may throw, as a broken transport would. */
  onSend: ((bytes: Uint8Array) => void) | undefined;
  /** Memory that is valid only for now: what is sent of it is copied, as a transport does with short pieces that wait. */
  lent: Uint8Array | undefined;
  #writable: (() => void) | undefined;
  readonly #sent: Uint8Array[] = [];

  send(message: Uint8Array): boolean {
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(message.length, 1);
    return this.sendFramed(Buffer.concat([prefix, message]));
  }

  sendFramed(range: Uint8Array, from = 0, to: number = range.length): boolean {
    const bytes = range.buffer === this.lent?.buffer ? Buffer.from(range.subarray(from, to)) : range.subarray(from, to);
    if (this.status !== undefined) this.breaches.push("sent after the end");
    this.onSend?.(bytes);
    this.#sent.push(bytes);
    return !this.full;
  }

  whenWritable(callback: () => void): void {
    this.#writable = callback;
  }

  pause(): void {
    this.paused = true;
    this.pauses++;
  }

  /** Whoever still reads the message finds other bytes. */
  recycle(message: Uint8Array): void {
    this.recycled++;
    message.fill(0xaa);
  }

  resume(): void {
    this.paused = false;
  }

  end(status: number, message?: string): void {
    if (this.status !== undefined) this.breaches.push("ended twice");
    this.status = status;
    this.statusMessage = message;
  }

  /** The peer has caught up. */
  drain(): void {
    this.full = false;
    const callback = this.#writable;
    this.#writable = undefined;
    callback?.();
  }

  /** The messages sent so far, without their prefixes. */
  messages(): Buffer[] {
    const bytes = Buffer.concat(this.#sent);
    const messages: Buffer[] = [];
    for (let at = 0; at < bytes.length; ) {
      const length = bytes.readUInt32BE(at + 1);
      if (bytes[at] !== 0 || at + 5 + length > bytes.length) {
        this.breaches.push("bytes that are no message");
        break;
      }
      messages.push(bytes.subarray(at + 5, at + 5 + length));
      at += 5 + length;
    }
    return messages;
  }
}
