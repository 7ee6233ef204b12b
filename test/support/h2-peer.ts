import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { VirtualClock } from "../../src/base/clock/virtual.ts";
import { Connection } from "../../src/base/grpc/h2/connection.ts";
import type { ConnectionHost } from "../../src/base/grpc/h2/connection-host.ts";
import { FLAG, FRAME, PREFACE } from "../../src/base/grpc/h2/protocol.ts";
import type { RequestHead } from "../../src/base/grpc/h2/request-head.ts";
import { Turns, type TurnTaker } from "../../src/base/grpc/h2/turns.ts";
import type { GrpcHandler } from "../../src/base/grpc/transport.ts";

/** A frame as a peer sees it. */
export interface SeenFrame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
}

/** One frame in bytes. */
export function frame(type: number, flags: number, streamId: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const bytes = Buffer.alloc(9 + payload.length);
  bytes.writeUIntBE(payload.length, 0, 3);
  bytes[3] = type;
  bytes[4] = flags;
  bytes.writeUInt32BE(streamId, 5);
  bytes.set(payload, 9);
  return bytes;
}

/** A 32-bit number in bytes. */
export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** One setting in bytes. */
export function setting(id: number, value: number): Buffer {
  return Buffer.concat([Buffer.of(id >> 8, id), u32(value)]);
}

/** A field without indexing, name and value spelled out, shorter than 127 bytes each. */
export function field(name: string, value: string): Buffer {
  return Buffer.concat([Buffer.of(0, name.length), Buffer.from(name), Buffer.of(value.length), Buffer.from(value)]);
}

/** The header block of a gRPC call: `:method POST`, `:scheme http`, `:path /p`, `content-type application/grpc`. */
export const CALL_BLOCK: Buffer = Buffer.concat([
  Buffer.of(0x83, 0x86, 0x04, 2),
  Buffer.from("/p"),
  field("content-type", "application/grpc"),
]);

/** Opens a call. */
export function open(streamId: number, flags = 0): Buffer {
  return frame(FRAME.headers, FLAG.endHeaders | flags, streamId, CALL_BLOCK);
}

/** A socket that keeps what is written to it, and takes it at once unless it is full. */
class FakeSocket extends EventEmitter {
  readonly written: Buffer[] = [];
  writes = 0;
  full = false;
  writableLength = 0;
  destroyed = false;
  ended = false;
  readonly remoteAddress: string;

  constructor(remoteAddress: string) {
    super();
    this.remoteAddress = remoteAddress;
  }

  write(bytes: Uint8Array): boolean {
    this.writes++;
    this.written.push(Buffer.from(bytes));
    if (this.full) this.writableLength += bytes.length;
    return !this.full;
  }
  end(): void {
    this.ended = true;
  }
  destroy(): void {
    this.destroyed = true;
  }
  paused = false;
  pause(): void {
    this.paused = true;
  }
  resume(): void {
    this.paused = false;
  }
}

/** Knows who waits for a turn. */
class WatchedTurns extends Turns {
  readonly waiting = new Set<TurnTaker>();

  override wait(taker: TurnTaker, busy: boolean): void {
    this.waiting.add(taker);
    const turn = (): void => {
      this.waiting.delete(taker);
      taker.turn();
    };
    super.wait({ address: taker.address, turn }, busy);
  }
}

/** What connections of one server share in tests: `new H2Peer(handler, { beside: other })` puts a second one beside a first. */
export interface H2PeerOptions {
  /** Whether preface and SETTINGS are exchanged at once; default true. */
  readonly greet?: boolean;
  readonly maxStreams?: number;
  /** Shares the event loop with that one. */
  readonly beside?: H2Peer;
  /** Of the client. */
  readonly address?: string;
}

/** One server connection without a network: feeds it bytes and reads the frames it answers with. All of it synchronous. */
export class H2Peer implements ConnectionHost {
  readonly clock: VirtualClock;
  readonly turns: WatchedTurns;
  readonly connections = 1;
  readonly socket: FakeSocket;
  readonly connection: Connection;
  readonly errors: unknown[] = [];
  readonly maxMessageBytes = 1 << 26;
  readonly maxStreams: number;
  streams = 0;
  resets = 0;
  readonly refused = { streams: 0, totalStreams: 0, flood: 0 };
  /** Whether other connections leave room for calls. */
  room = true;
  connectionClosed = false;
  readonly #handler: GrpcHandler;
  #output = Buffer.alloc(0);

  constructor(
    handler: GrpcHandler,
    { greet = true, maxStreams = 1000, beside, address = "10.0.0.1" }: H2PeerOptions = {},
  ) {
    this.#handler = handler;
    this.maxStreams = maxStreams;
    this.socket = new FakeSocket(address);
    this.clock = beside?.clock ?? new VirtualClock();
    this.turns = beside?.turns ?? new WatchedTurns(this.clock);
    this.connection = new Connection(this.socket as unknown as Socket, false, this);
    if (greet) {
      this.feed(PREFACE, frame(FRAME.settings, 0, 0));
      this.frames();
    }
  }

  /** Whether the connection has work left for a later turn. */
  get waiting(): boolean {
    return this.turns.waiting.has(this.connection);
  }

  /** The connection reads these bytes and has as many turns as it wants. */
  feed(...parts: Uint8Array[]): void {
    this.arrive(...parts);
    this.clock.advance(0);
  }

  /** The connection reads these bytes, as one chunk in memory that is overwritten afterwards; what must wait waits. */
  arrive(...parts: Uint8Array[]): void {
    if (this.socket.paused) throw new Error("a socket that is paused is not read");
    const chunk = Buffer.concat(parts);
    this.socket.emit("data", chunk);
    chunk.fill(0xee);
  }

  /** What it has sent since the last call, as whole frames. */
  frames(): SeenFrame[] {
    this.connection.endTurn();
    let bytes = Buffer.concat([this.#output, ...this.socket.written.splice(0)]);
    const frames: SeenFrame[] = [];
    while (bytes.length >= 9 && bytes.length >= 9 + bytes.readUIntBE(0, 3)) {
      const end = 9 + bytes.readUIntBE(0, 3);
      frames.push({
        type: bytes[3]!,
        flags: bytes[4]!,
        streamId: bytes.readUInt32BE(5),
        payload: bytes.subarray(9, end),
      });
      bytes = bytes.subarray(end);
    }
    this.#output = bytes;
    return frames;
  }

  /** How the connection or stream was ended: `goaway 1`, `reset 3 5`, or "" for neither. */
  verdict(): string {
    const verdicts: string[] = [];
    for (const { type, streamId, payload } of this.frames()) {
      if (type === FRAME.goaway) verdicts.push(`goaway ${payload.readUInt32BE(4)}`);
      if (type === FRAME.rstStream) verdicts.push(`reset ${streamId} ${payload.readUInt32BE(0)}`);
    }
    return verdicts.join(", ");
  }

  /** The socket has handed everything on. */
  drainSocket(): void {
    this.socket.full = false;
    this.socket.writableLength = 0;
    this.socket.emit("drain");
  }

  route(head: RequestHead): GrpcHandler | number {
    return head.method === "POST" ? this.#handler : 405;
  }
  onHandlerError(error: unknown): void {
    this.errors.push(error);
  }
  greeted(): void {}
  busy(): void {}
  hasRoom(): boolean {
    return this.room;
  }
  refuse(what: "streams" | "totalStreams" | "flood"): void {
    this.refused[what]++;
  }
  opened(): void {
    this.streams++;
  }
  ended(_connection: Connection, reset: boolean): void {
    this.streams--;
    if (reset) this.resets++;
  }
  closed(): void {
    this.connectionClosed = true;
  }
}
