import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import type { Server, TLSSocket } from "node:tls";
import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../clock/virtual.ts";
import { HANDSHAKE_TIMEOUT, Handshakes } from "./handshakes.ts";
import { ConnectionLimits } from "./limits.ts";

/** A socket of a client, and the server's side of it. */
class FakeSocket extends EventEmitter {
  readonly remoteAddress = "10.0.0.1";
  readonly remotePort: number;
  readonly given: Buffer[] = [];
  reading = false;
  destroyed = false;

  constructor(remotePort: number) {
    super();
    this.remotePort = remotePort;
  }
  resume(): void {
    this.reading = true;
  }
  pause(): void {
    this.reading = false;
  }
  unshift(bytes: Buffer): void {
    this.given.push(bytes);
  }
  destroy(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.emit("close");
  }
  speak(): void {
    if (this.reading) this.emit("data", Buffer.from("hello"));
  }
}

function door() {
  const clock = new VirtualClock();
  const begun: number[] = [];
  const server = { emit: (_: string, socket: FakeSocket) => void begun.push(socket.remotePort) } as unknown as Server;
  const limits = new ConnectionLimits({ all: 4000 });
  const handshakes = new Handshakes(server, limits, clock);
  let port = 0;
  const arrive = (): FakeSocket => {
    const socket = new FakeSocket(++port);
    handshakes.accept(socket as unknown as Socket);
    return socket;
  };
  const finish = (socket: FakeSocket): boolean => handshakes.finished(socket as unknown as TLSSocket);
  return { clock, begun, limits, arrive, finish, close: () => handshakes.close() };
}

describe("TLS handshakes", () => {
  it("begin when the client speaks, one in a turn of the event loop, the newest first, with what the client said", () => {
    const { clock, begun, arrive } = door();
    const sockets = [arrive(), arrive(), arrive(), arrive()];
    clock.advance(0);
    expect(begun).toEqual([]);
    for (const socket of sockets.slice(0, 3)) socket.speak();
    expect(begun).toEqual([]);
    const atTurns: number[][] = [];
    const look = (): void => {
      atTurns.push([...begun]);
      if (begun.length < 3) clock.soon(look);
    };
    clock.soon(look);
    clock.advance(0);
    expect(atTurns).toEqual([[3], [3, 2], [3, 2, 1]]);
    expect(sockets[0]!.given).toEqual([Buffer.from("hello")]);
    expect(sockets[0]!.reading).toBe(false);
  });

  it("end after ten seconds, spoken or not, and no sooner", () => {
    const { clock, begun, limits, arrive } = door();
    const silent = arrive();
    const half = arrive();
    half.speak();
    clock.advance(HANDSHAKE_TIMEOUT - 1);
    expect(begun).toEqual([2]);
    expect([silent.destroyed, half.destroyed]).toEqual([false, false]);
    clock.advance(1);
    expect([silent.destroyed, half.destroyed]).toEqual([true, true]);
    expect(limits.size).toBe(0);
  });

  it("are no longer timed once they are through", () => {
    const { clock, limits, arrive, finish } = door();
    const socket = arrive();
    socket.speak();
    clock.advance(0);
    expect(finish(socket)).toBe(true);
    expect(limits.size).toBe(0);
    clock.advance(HANDSHAKE_TIMEOUT);
    expect(socket.destroyed).toBe(false);
    expect(finish(socket)).toBe(false);
  });

  it("are 64 at a time: one more ends the oldest, which a client that stays silent cannot prevent", () => {
    const { clock, arrive, finish } = door();
    const sockets = Array.from({ length: 70 }, () => {
      const socket = arrive();
      socket.speak();
      clock.advance(0);
      return socket;
    });
    expect(sockets.map(({ destroyed }) => destroyed)).toEqual(sockets.map((_, n) => n < 6));
    expect(finish(sockets[0]!)).toBe(false);
    expect(finish(sockets[69]!)).toBe(true);
  });

  it("end with their server, those that are through excepted", () => {
    const { clock, limits, arrive, finish, close } = door();
    const through = arrive();
    through.speak();
    clock.advance(0);
    finish(through);
    const others = [arrive(), arrive()];
    others[0]!.speak();
    close();
    expect(through.destroyed).toBe(false);
    expect(others.map(({ destroyed }) => destroyed)).toEqual([true, true]);
    expect(limits.size).toBe(0);
  });

  it("leave no trace of a client that goes away before its turn", () => {
    const { clock, begun, limits, arrive } = door();
    const socket = arrive();
    socket.speak();
    socket.destroy();
    clock.advance(0);
    expect(begun).toEqual([]);
    expect(limits.size).toBe(0);
    expect(clock.pending).toBe(0);
  });
});
