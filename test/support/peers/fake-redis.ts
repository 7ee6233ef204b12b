import type { Clock } from "../../../src/base/clock/clock.ts";
import type { Redis, RedisArgument, RedisOptions, RedisReply } from "../../../src/base/redis/connection.ts";
import { unavailable } from "../../../src/base/redis/reply-error.ts";

/** The questions and answers with which a connection begins. */
const FIRST_COMMANDS = 3;

/** One command of a client, in lower detail. */
interface Asked {
  readonly name: string;
  readonly args: readonly RedisArgument[];
}

/** A Redis in memory, with what replicas use of it, for one clock. Answers come in a later microtask. */
export class FakeRedis {
  readonly links: FakeLink[] = [];
  readonly asked: Asked[] = [];
  readonly values = new Map<string, { readonly bytes: Buffer; readonly until: number }>();
  readonly members = new Set<string>();
  log: { readonly id: string; readonly bytes: Buffer }[] = [];
  /** Milliseconds of the server's clock, which stamps the log. */
  wall = 1000;
  /** Why each command is refused, by its name. */
  readonly refusals = new Map<string, Error>();
  #up = true;
  #problem = "";
  /** Milliseconds until each answer comes. */
  late = 0;
  /** Answers wait until they are let through. */
  #held: (() => void)[] | undefined;
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  readonly connect = (_connection: unknown, _deps: unknown, options: RedisOptions): Redis => {
    const link = new FakeLink(this, options);
    this.links.push(link);
    if (this.#up) queueMicrotask(() => link.open());
    else queueMicrotask(() => options.onAway?.(this.#problem));
    return link;
  };

  /** Every connection breaks. @param problem of those, and of all attempts until it is back; absent = nobody listens */
  kill(problem?: string): void {
    this.#up = false;
    this.#problem = problem ?? "connect ECONNREFUSED";
    for (const link of this.links) link.break(problem ?? "the connection ended");
  }

  /** It is back. @param empty it has lost everything */
  revive(empty: boolean): void {
    this.#up = true;
    if (empty) this.flush();
    for (const link of this.links) link.open();
  }

  get up(): boolean {
    return this.#up;
  }

  flush(): void {
    this.values.clear();
    this.members.clear();
    this.log = [];
  }

  hold(on: boolean): void {
    const held = this.#held ?? [];
    this.#held = on ? held : undefined;
    if (!on) for (const release of held) release();
  }

  /** The commands of one name. */
  of(name: string): readonly Asked[] {
    return this.asked.filter((one) => one.name === name);
  }

  publish(channel: string, bytes: Buffer): void {
    for (const link of this.links) link.hear(channel, bytes);
  }

  append(bytes: Buffer): void {
    const last = this.log.at(-1)?.id.split("-").map(Number) ?? [0, 0];
    const ms = Math.max(this.wall, last[0]!);
    this.log.push({ id: `${ms}-${ms === last[0] ? last[1]! + 1 : 0}`, bytes });
    for (const link of this.links) link.wake();
  }

  async ask(link: FakeLink, args: readonly RedisArgument[]): Promise<RedisReply> {
    const name = String(args[0]);
    this.asked.push({ name, args });
    await Promise.resolve();
    if (this.#held !== undefined && name !== "XREAD") await new Promise<void>((resolve) => this.#held!.push(resolve));
    // A read of the log waits at the server anyway.
    if (this.late > 0 && !args.includes("BLOCK")) await link.wait(this.late, this.#clock);
    const refusal = this.refusals.get(name);
    if (refusal !== undefined) throw refusal;
    if (!link.ready) throw link.absence();
    return this.#answer(link, name, args);
  }

  #answer(link: FakeLink, name: string, args: readonly RedisArgument[]): RedisReply | Promise<RedisReply> {
    const [, key, value] = args.map(String);
    switch (name) {
      case "PUBLISH":
        this.publish(key!, args[2] as Buffer);
        return 1;
      case "SET":
        this.values.set(key!, { bytes: args[2] as Buffer, until: this.#clock.now() + Number(args[4]) });
        return "OK";
      case "DEL":
        return Number(this.values.delete(key!));
      case "SADD":
        this.members.add(value!);
        return 1;
      case "SREM":
        for (const one of args.slice(2)) this.members.delete(String(one));
        return 1;
      case "SRANDMEMBER":
        return [...this.members].slice(0, Number(value));
      case "MGET":
        return args.slice(1).map((one) => {
          const found = this.values.get(String(one));
          return found !== undefined && found.until > this.#clock.now() ? found.bytes : null;
        });
      case "PTTL": {
        const left = (this.values.get(key!)?.until ?? 0) - this.#clock.now();
        return left > 0 ? left : -2;
      }
      case "XADD":
        this.append(args.at(-1) as Buffer);
        return this.log.at(-1)!.id;
      case "XREVRANGE":
        return this.log.slice(-1).map(entry);
      case "XREAD":
        return this.#read(link, args);
      case "PEXPIRE":
        return 1;
      case "PING":
        return "PONG";
      default:
        throw new Error(`the fake does not know ${name}`);
    }
  }

  async #read(link: FakeLink, args: readonly RedisArgument[]): Promise<RedisReply> {
    const after = String(args.at(-1));
    const count = Number(args[2]);
    const found = (): RedisReply[] => {
      return this.log
        .filter(({ id }) => isAfter(id, after))
        .slice(0, count)
        .map(entry);
    };
    if (found().length === 0 && args.includes("BLOCK")) await link.sleep(Number(args[4]), this.#clock);
    const entries = found();
    return entries.length === 0 ? null : [[String(args.at(-2)), entries]];
  }
}

function entry({ id, bytes }: { id: string; bytes: Buffer }): RedisReply {
  return [Buffer.from(id), [Buffer.from("m"), bytes]];
}

function isAfter(id: string, other: string): boolean {
  const [ms, n] = id.split("-").map(Number);
  const [otherMs, otherN] = other.split("-").map(Number);
  return ms! > otherMs! || (ms === otherMs && n! > otherN!);
}

/** A connection to the fake. */
class FakeLink implements Redis {
  readonly server = "fake:6379";
  readonly announces = false;
  ready = false;
  readonly #store: FakeRedis;
  readonly #options: RedisOptions;
  readonly #channels = new Map<string, (bytes: Buffer) => void>();
  #closed = false;
  /** Rises with each connection. */
  #life = 0;
  #sleepers: (() => void)[] = [];
  #problem = "not connected yet";

  constructor(store: FakeRedis, options: RedisOptions) {
    this.#store = store;
    this.#options = options;
  }

  open(): void {
    if (this.#closed || this.ready) return;
    this.ready = true;
    this.#options.onReady?.();
  }

  break(problem: string): void {
    if (this.#closed) return;
    this.ready = false;
    this.#life++;
    this.#problem = problem;
    this.wake();
    this.#options.onAway?.(problem);
  }

  hear(channel: string, bytes: Buffer): void {
    if (this.ready) this.#channels.get(channel)?.(bytes);
  }

  wake(): void {
    for (const sleeper of this.#sleepers.splice(0)) sleeper();
  }

  async sleep(ms: number, clock: Clock): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#sleepers.push(resolve);
      clock.after(ms, resolve, true);
    });
    if (!this.ready) throw this.absence();
  }

  /** Waits for an answer; one that is too late ends the connection, and the next one begins as late. */
  async wait(ms: number, clock: Clock): Promise<void> {
    const life = this.#life;
    const { commandTimeout = 10_000 } = this.#options;
    await new Promise<void>((resolve) => {
      clock.after(Math.min(ms, commandTimeout), resolve, true);
    });
    const { late } = this.#store;
    if (life === this.#life && (ms <= commandTimeout || late === 0)) return;
    if (life === this.#life) {
      this.break(`no answer within ${commandTimeout} ms`);
      clock.after(FIRST_COMMANDS * late, () => this.#store.up && this.open(), true);
    }
    throw this.absence();
  }

  send(args: readonly RedisArgument[]): Promise<RedisReply> {
    return this.ready ? this.#store.ask(this, args) : Promise.reject(this.absence());
  }

  run(): Promise<RedisReply> {
    return Promise.reject(new Error("the fake has no scripts"));
  }

  subscribe(): void {
    throw new Error("the fake has no text channels");
  }

  subscribeBytes(channel: string, listener: (bytes: Buffer) => void): void {
    this.#channels.set(channel, listener);
  }

  whenReady(): Promise<void> {
    return this.ready ? Promise.resolve() : Promise.reject(this.absence());
  }

  absence(): ReturnType<typeof unavailable> {
    return unavailable(this.server, this.#problem);
  }

  another(): Redis {
    throw new Error("the fake has no other connections");
  }

  close(): void {
    this.#closed = true;
    this.ready = false;
    this.#problem = "the connection was closed";
    this.wake();
  }
}
