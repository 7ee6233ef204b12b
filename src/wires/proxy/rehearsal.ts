import { connect, createServer, type Server, type Socket } from "node:net";
import type { Clock } from "../../base/clock/clock.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import type { PlayExchanges, SyntheticExchange } from "../../picker/exchange/synthetic.ts";
import type { PathTable } from "./path-table.ts";
import { startProxy } from "./server.ts";

/** Exchanges on their way at a time, each on a connection of its own that serves many. */
const AT_A_TIME = 16;
/** Milliseconds after which a rehearsal that does not end is given up; it takes some tenths of a second. */
const PATIENCE = 2000;

const HEAD_END = "\r\n\r\n";
const LAST_CHUNK = "\r\n0\r\n\r\n";
const LOOPBACK = "127.0.0.1";

/**
 * Plays synthetic exchanges over loopback connections of their own, through a proxy of their own, to a model server that knows the
 * answers: they execute the parsers, connections and timers, too. Where the loopback interface cannot be used, nothing is played.
 * @param paths what the gateway lets pass @param patience milliseconds after which it is given up
 */
export function rehearsal(clock: Clock, paths: PathTable, patience = PATIENCE): PlayExchanges {
  return async (openExchange, exchanges) => {
    const answers = new Map<string, Buffer[]>();
    const sockets = new Set<Socket>();
    const models = createServer({ noDelay: true }, (socket) => {
      sockets.add(socket);
      socket
        .on("error", () => {})
        .on("data", new MessageReader(({ target }) => answerTo(socket, answers, target)).push);
    });
    let proxy: Awaited<ReturnType<typeof startProxy>> | undefined;
    try {
      const port = await listening(models);
      const running = await startProxy({
        listeners: [{ host: LOOPBACK, port: 0 }],
        clock,
        random: new SeededRandom(1),
        openExchange,
        paths,
        // However many streams run, each piece passes at once.
        timers: { streamRest: 0 },
        connect: () => connect(port, LOOPBACK),
      });
      proxy = running;
      await new Promise<void>((resolve) => {
        const timer = clock.after(patience, resolve);
        const client = new RehearsingClient(running.port, exchanges, answers, () => {
          timer.cancel();
          resolve();
        });
        for (const socket of client.sockets) sockets.add(socket);
      });
    } catch {
      // Cold code serves, too.
    } finally {
      for (const socket of sockets) socket.destroy();
      models.close();
      await proxy?.close();
    }
  };
}

function listening(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, LOOPBACK, () => resolve((server.address() as { port: number }).port));
  });
}

/** Answers as model servers do: head and pieces in writes of their own. */
function answerTo(socket: Socket, answers: ReadonlyMap<string, readonly Buffer[]>, target: string): void {
  for (const piece of answers.get(target) ?? []) socket.write(piece);
}

/** The pieces of an answer: of one chunk with its length, else chunked. */
function piecesOf({ answerType, answer }: SyntheticExchange): Buffer[] {
  const head = `HTTP/1.1 200 OK\r\ncontent-type: ${answerType}\r\n`;
  if (answer.length === 1)
    return [Buffer.from(`${head}content-length: ${answer[0]!.length}${HEAD_END}`, "latin1"), answer[0]!];
  const chunks = answer.map((chunk, at) =>
    Buffer.concat([
      Buffer.from(`${chunk.length.toString(16)}\r\n`),
      chunk,
      Buffer.from(at + 1 === answer.length ? LAST_CHUNK : "\r\n"),
    ]),
  );
  return [Buffer.from(`${head}transfer-encoding: chunked${HEAD_END}`, "latin1"), ...chunks];
}

/** Plays one exchange after the other on each connection. */
class RehearsingClient {
  readonly sockets: readonly Socket[];
  readonly #exchanges: Iterator<SyntheticExchange>;
  readonly #answers: Map<string, Buffer[]>;
  readonly #done: () => void;
  #played = 0;
  #open = AT_A_TIME;

  /** @param answers gets the answer to each request before the request leaves @param done called once, when all have ended */
  constructor(port: number, exchanges: Iterable<SyntheticExchange>, answers: Map<string, Buffer[]>, done: () => void) {
    this.#exchanges = exchanges[Symbol.iterator]();
    this.#answers = answers;
    this.#done = done;
    this.sockets = Array.from({ length: AT_A_TIME }, () => {
      const socket = connect({ port, host: LOOPBACK, noDelay: true });
      let target = "";
      const next = (): void => {
        answers.delete(target);
        target = this.#send(socket) ?? "";
      };
      return socket
        .on("error", () => {})
        .on("connect", next)
        .on("data", new MessageReader(next).push)
        .on("close", () => {
          if (--this.#open === 0) this.#done();
        });
    });
  }

  /** @returns the target of the request; undefined when there is none left */
  #send(socket: Socket): string | undefined {
    const next = this.#exchanges.next();
    if (next.done === true) {
      socket.destroy();
      return undefined;
    }
    const { headers, body } = next.value;
    const path = headers.find(([name]) => name === ":path")?.[1] ?? "/";
    // The query tells the model server which answer is meant.
    const target = `${path}?rehearsal=${this.#played++}`;
    const fields = headers.filter(([name]) => !name.startsWith(":")).map(([name, value]) => `${name}: ${value}\r\n`);
    this.#answers.set(target, piecesOf(next.value));
    const head = `POST ${target} HTTP/1.1\r\nhost: warm-up\r\n${fields.join("")}\r\n`;
    socket.write(Buffer.concat([Buffer.from(head, "latin1"), body]));
    return target;
  }
}

/** Finds the ends of messages that the rehearsal itself has written, or its proxy: no others come. */
class MessageReader {
  readonly #onMessage: (message: { readonly target: string }) => void;
  #text = "";

  /** @param onMessage gets the second word of the first line: the target of a request */
  constructor(onMessage: (message: { readonly target: string }) => void) {
    this.#onMessage = onMessage;
  }

  readonly push = (piece: Buffer): void => {
    this.#text += piece.toString("latin1");
    const headEnd = this.#text.indexOf(HEAD_END);
    if (headEnd < 0) return;
    const head = this.#text.slice(0, headEnd + HEAD_END.length);
    const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
    const whole =
      length === undefined
        ? !/\r\ntransfer-encoding:/i.test(head) || this.#text.endsWith(LAST_CHUNK)
        : this.#text.length >= head.length + Number(length);
    if (!whole) return;
    this.#text = "";
    this.#onMessage({ target: head.split(" ", 2)[1]! });
  };
}
