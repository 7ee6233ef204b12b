import { poll } from "./poll.ts";
import { type RunningRedis, startRedis } from "./redis.ts";
import { type TcpProxy, tcpProxy } from "./tcp-proxy.ts";

/** A command for one of the servers. */
type Ask = (url: string, ...command: string[]) => Promise<unknown>;

/** A primary and a replica behind one address, as Sentinel shows them to clients. */
export class RedisPair {
  readonly primary: RunningRedis;
  readonly replica: RunningRedis;
  readonly #front: TcpProxy;
  readonly #link: TcpProxy;
  readonly #ask: Ask;

  private constructor(primary: RunningRedis, replica: RunningRedis, front: TcpProxy, link: TcpProxy, ask: Ask) {
    this.primary = primary;
    this.replica = replica;
    this.#front = front;
    this.#link = link;
    this.#ask = ask;
  }

  static async start(ask: Ask): Promise<RedisPair> {
    const primary = await startRedis();
    const link = await tcpProxy(primary.port);
    const replica = await startRedis({ args: ["--replicaof", "127.0.0.1", String(link.port)] });
    const pair = new RedisPair(primary, replica, await tcpProxy(primary.port), link, ask);
    await pair.inStep();
    return pair;
  }

  /** Of whichever is the primary. */
  get url(): string {
    return `redis://127.0.0.1:${this.#front.port}`;
  }

  /** Resolves when the replica has everything. */
  async inStep(): Promise<void> {
    const figure = async (url: string, name: string): Promise<string | undefined> =>
      new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(String(await this.#ask(url, "INFO", "replication")))?.[1];
    await poll("the replica to be in step", async () => {
      if ((await figure(this.replica.url, "master_link_status")) !== "up") return false;
      return (
        (await figure(this.primary.url, "master_repl_offset")) === (await figure(this.replica.url, "slave_repl_offset"))
      );
    });
  }

  /** From now on the replica hears nothing. */
  lag(): void {
    this.#link.blackHole(true);
  }

  /** The primary dies, and the replica takes its place with what it has. */
  async failOver(): Promise<void> {
    await this.primary.kill();
    await this.#ask(this.replica.url, "REPLICAOF", "NO", "ONE");
    this.#front.retarget(this.replica.port);
    this.#front.cut();
  }

  async stop(): Promise<void> {
    await this.#front.close();
    await this.#link.close();
    await this.primary.stop();
    await this.replica.stop();
  }
}
