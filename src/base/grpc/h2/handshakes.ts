import type { Socket } from "node:net";
import type { Server, TLSSocket } from "node:tls";
import type { Clock, Timer } from "../../clock/clock.ts";
import type { ConnectionLimits, Guest } from "./limits.ts";

/** Milliseconds for a TLS handshake, from the accepted connection on. */
export const HANDSHAKE_TIMEOUT = 10_000;

/**
 * Handshakes that wait for their client's second flight. Beyond this number the oldest one ends: silent clients must not delay
 * the newest. This is also the most second flights that may arrive in one turn of the event loop.
 */
const MAX_UNDER_WAY = 64;

/** A connection that has not finished its handshake. */
class Handshake implements Guest {
  readonly address: string;
  readonly socket: Socket;
  readonly timer: Timer;

  constructor(socket: Socket, timer: Timer) {
    this.socket = socket;
    this.address = socket.remoteAddress ?? "";
    this.timer = timer;
  }

  giveWay(): void {
    this.socket.destroy();
  }
}

/**
 * Admits TLS clients one by one. A handshake takes half a millisecond of the event loop. Therefore only one begins in each
 * turn, and only after the client has sent its first bytes. The newest goes first: its client most likely still waits.
 */
export class Handshakes {
  readonly #server: Server;
  readonly #limits: ConnectionLimits;
  readonly #clock: Clock;
  readonly #refused: ((bytes: Buffer, socket: Socket) => boolean) | undefined;
  readonly #all = new Set<Handshake>();
  /** Clients that have sent bytes, the newest last. */
  readonly #ready = new Set<Handshake>();
  /** By the client's address and port, the oldest first. */
  readonly #underWay = new Map<string, Handshake>();
  #armed = false;

  /**
   * @param server does the handshakes; it need not listen
   * @param refused looks at the first bytes of a client; true = it has answered them, and there is no handshake
   */
  constructor(
    server: Server,
    limits: ConnectionLimits,
    clock: Clock,
    refused?: (bytes: Buffer, socket: Socket) => boolean,
  ) {
    this.#refused = refused;
    this.#server = server;
    this.#limits = limits;
    this.#clock = clock;
  }

  /** @param socket accepted, and not read from (`pauseOnConnect`) */
  accept(socket: Socket): void {
    const timer = this.#clock.after(HANDSHAKE_TIMEOUT, () => socket.destroy(), true);
    const handshake = new Handshake(socket, timer);
    const key = keyOf(socket);
    socket.on("error", () => {});
    socket.on("close", () => {
      timer.cancel();
      this.#all.delete(handshake);
      this.#ready.delete(handshake);
      if (this.#underWay.get(key) === handshake) this.#underWay.delete(key);
      this.#limits.leave(handshake);
    });
    if (!this.#limits.enter(handshake)) {
      socket.destroy();
      return;
    }
    this.#all.add(handshake);
    socket.once("data", (bytes: Buffer) => {
      if (this.#refused?.(bytes, socket) === true) return;
      socket.pause();
      socket.unshift(bytes);
      this.#ready.add(handshake);
      this.#arm();
    });
    socket.resume();
  }

  /** A handshake is complete. @returns false when it was given up meanwhile */
  finished(socket: TLSSocket): boolean {
    const key = keyOf(socket);
    const handshake = this.#underWay.get(key);
    if (handshake === undefined) return false;
    this.#underWay.delete(key);
    this.#all.delete(handshake);
    handshake.timer.cancel();
    this.#limits.leave(handshake);
    return true;
  }

  /** Ends the handshakes that are not complete. */
  close(): void {
    for (const handshake of [...this.#all]) handshake.giveWay();
  }

  #arm(): void {
    if (this.#armed) return;
    this.#armed = true;
    this.#clock.soon(() => {
      this.#armed = false;
      this.#begin();
      if (this.#ready.size > 0) this.#arm();
    });
  }

  #begin(): void {
    const newest = [...this.#ready].at(-1);
    if (newest === undefined) return;
    this.#ready.delete(newest);
    if (newest.socket.destroyed) return;
    if (this.#underWay.size >= MAX_UNDER_WAY) {
      for (const oldest of this.#underWay.values()) {
        oldest.giveWay();
        break;
      }
    }
    this.#underWay.set(keyOf(newest.socket), newest);
    this.#server.emit("connection", newest.socket);
  }
}

function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
