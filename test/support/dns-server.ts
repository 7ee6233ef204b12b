import { createSocket, type Socket } from "node:dgram";
import { type AddressInfo, createServer, type Server, type Socket as TcpSocket } from "node:net";
import { freePort, onFreePorts } from "./free-port.ts";

/** One record: an address, or host and port of an SRV record. */
export type DnsRecord = string | { readonly target: string; readonly port: number };

export type DnsAnswer =
  | { readonly records: readonly DnsRecord[] /** UDP says: ask by TCP. */; readonly truncated?: boolean }
  | { readonly rcode: keyof typeof RCODES };

const TYPES = { A: 1, AAAA: 28, SRV: 33 } as const;
type DnsType = keyof typeof TYPES;
const RCODES = { SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 } as const;

/** A DNS server on loopback, UDP and TCP on one port, that answers what a test has told it. All else is NXDOMAIN. */
export class DnsServer {
  readonly #udp: Socket;
  readonly #tcp: Server;
  readonly #answers = new Map<string, DnsAnswer>();
  readonly #connections = new Set<TcpSocket>();
  /** `TYPE name`, with `tcp` behind it where it came so; in order. */
  readonly asked: string[] = [];

  private constructor(udp: Socket, tcp: Server) {
    this.#udp = udp;
    this.#tcp = tcp;
    udp.on("message", (question, { port, address }) => {
      const answer = this.#answer(question, false);
      if (answer !== undefined) udp.send(answer, port, address);
    });
    tcp.on("connection", (socket) => this.#serve(socket));
  }

  static async start(): Promise<DnsServer> {
    return onFreePorts(async () => {
      const port = await freePort();
      const udp = createSocket("udp4");
      const tcp = createServer();
      await new Promise<void>((resolve, reject) => {
        udp.once("error", reject);
        udp.bind(port, "127.0.0.1", resolve);
      });
      await new Promise<void>((resolve, reject) => {
        tcp.once("error", reject);
        tcp.listen(port, "127.0.0.1", resolve);
      });
      return new DnsServer(udp, tcp);
    });
  }

  get address(): string {
    return `127.0.0.1:${(this.#tcp.address() as AddressInfo).port}`;
  }

  set(type: DnsType, name: string, answer: DnsAnswer): void {
    this.#answers.set(`${type} ${name}`, answer);
  }

  async stop(): Promise<void> {
    for (const socket of this.#connections) socket.destroy();
    await Promise.all([
      new Promise<void>((resolve) => this.#udp.close(resolve)),
      new Promise((resolve) => this.#tcp.close(resolve)),
    ]);
  }

  #serve(socket: TcpSocket): void {
    this.#connections.add(socket);
    socket.on("close", () => this.#connections.delete(socket));
    socket.on("error", () => socket.destroy());
    let held = Buffer.alloc(0);
    socket.on("data", (piece: Buffer) => {
      held = Buffer.concat([held, piece]);
      while (held.length >= 2 && held.length >= 2 + held.readUInt16BE(0)) {
        const end = 2 + held.readUInt16BE(0);
        const answer = this.#answer(held.subarray(2, end), true);
        held = held.subarray(end);
        if (answer !== undefined) socket.write(Buffer.concat([u16(answer.length), answer]));
      }
    });
  }

  #answer(message: Buffer, tcp: boolean): Buffer | undefined {
    let at = 12;
    const labels: string[] = [];
    for (let length = message[at]!; length !== 0; length = message[at]!) {
      labels.push(message.toString("latin1", at + 1, at + 1 + length));
      at += 1 + length;
    }
    const number = message.readUInt16BE(at + 1);
    const type = (Object.keys(TYPES) as DnsType[]).find((each) => TYPES[each] === number);
    const question = message.subarray(12, at + 5);
    const key = `${type} ${labels.join(".").toLowerCase()}`;
    this.asked.push(tcp ? `${key} tcp` : key);
    const named = [...this.#answers.keys()].some((known) => known.split(" ")[1] === key.split(" ")[1]);
    const known = this.#answers.get(key) ?? (named ? { records: [] } : { rcode: "NXDOMAIN" as const });
    const records = "records" in known && (tcp || !known.truncated) ? known.records : [];
    const rcode = "rcode" in known ? RCODES[known.rcode] : 0;
    const isTruncated = "records" in known && known.truncated === true && !tcp;
    // An answer, recursion wanted and available.
    const flags = 0x8180 | rcode | (isTruncated ? 0x0200 : 0);
    const head = Buffer.concat([message.subarray(0, 2), ...[flags, 1, records.length, 0, 0].map(u16)]);
    const body = records.map((record) => {
      const data = rdata(record);
      // The name of the question, class IN, TTL 0.
      return Buffer.concat([u16(0xc00c), u16(number), u16(1), u16(0), u16(0), u16(data.length), data]);
    });
    return Buffer.concat([head, question, ...body]);
  }
}

function u16(value: number): Buffer {
  const out = Buffer.alloc(2);
  out.writeUInt16BE(value);
  return out;
}

function rdata(record: DnsRecord): Buffer {
  if (typeof record !== "string") {
    const labels = record.target.split(".").filter((label) => label !== "");
    const name = labels.map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)]));
    return Buffer.concat([u16(0), u16(0), u16(record.port), ...name, Buffer.from([0])]);
  }
  if (!record.includes(":")) return Buffer.from(record.split(".").map(Number));
  const [front = "", back = ""] = record.split("::");
  const groups = (text: string): number[] =>
    text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16));
  const [first, last] = [groups(front), groups(back)];
  const zeros = Array.from({ length: 8 - first.length - last.length }, () => 0);
  return Buffer.concat([...first, ...zeros, ...last].map(u16));
}
