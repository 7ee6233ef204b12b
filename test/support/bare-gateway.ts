/**
 * The program behind `gateway-process.ts`: just enough HTTP/1.1 over bare sockets to answer every POST with the id of its
 * request, at once or later, and to remember who asked how often. A gateway that cost as much as a dispatcher would be
 * what a bench measures.
 */
import { createServer, type Server, type Socket } from "node:net";

/** What the gateway has seen since it started or was reset. */
export interface GatewayStats {
  readonly requests: number;
  readonly connections: number;
  /** Most requests under way at a time. */
  readonly peak: number;
  /** Requests per request id. */
  readonly sent: readonly (readonly [id: string, times: number])[];
  /** Unix microseconds: arrival of the first request, end of the last answer. */
  readonly first: number;
  readonly last: number;
  /** Mean milliseconds from a request's arrival to its answer. */
  readonly held: number;
  /** Per request in order of arrival, when `arrivals` is on: its id and Unix microseconds. */
  readonly arrivals: readonly (readonly [id: string, at: number])[];
}

/** How it answers; members that are left out stay as they are. */
export interface GatewayManner {
  /** Milliseconds until an answer. */
  readonly delay?: number;
  /** Answers nothing that arrives from now on, until `release`. */
  readonly hold?: boolean;
  /** How many requests it answers in all, counted from its start or `reset`; what comes later waits for `release`. */
  readonly answers?: number;
  /** Of new requests ids, one in so many is answered with 503 at first; 0 = none. */
  readonly failEvery?: number;
  /** Remember when each request arrived. */
  readonly arrivals?: boolean;
}

/** What the parent may ask for. */
export type GatewayQuestion =
  | { readonly kind: "stats" }
  | { readonly kind: "reset" }
  | { readonly kind: "manner"; readonly manner: GatewayManner }
  /** Answers what is held. */
  | { readonly kind: "release" }
  /** Closes the port and cuts all connections; `open` listens on the same port again. */
  | { readonly kind: "close" }
  | { readonly kind: "open" }
  /** Replied to when so many requests have arrived since the last reset. */
  | { readonly kind: "reaches"; readonly requests: number };

const HEAD_END = "\r\n\r\n";
const LENGTH = /\r\ncontent-length: *(\d+)/i;
const ID = /\r\nx-request-id: *([^\r]*)/i;

const micros = (): number => (performance.timeOrigin + performance.now()) * 1000;

class BareGateway {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #held: (() => void)[] = [];
  readonly #failed = new Set<string>();
  #sent = new Map<string, number>();
  #arrivals: [string, number][] = [];
  #milestones: { requests: number; reply: () => void }[] = [];
  #manner: Required<GatewayManner> = {
    ...{ delay: 0, hold: false, failEvery: 0, arrivals: false },
    answers: Number.MAX_SAFE_INTEGER,
  };
  readonly #port: number;
  #requests = 0;
  #connections = 0;
  #running = 0;
  #peak = 0;
  #first = 0;
  #last = 0;
  #heldMicros = 0;

  constructor(port: number) {
    this.#port = port;
    this.#server = createServer({ noDelay: true }, (socket) => this.#serve(socket));
  }

  /** Listens, at first or again after `close`. */
  async open(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ port: this.#port, host: "127.0.0.1", backlog: 4096 }, resolve);
    });
  }

  answer(question: GatewayQuestion, reply: (value?: unknown) => void): void {
    switch (question.kind) {
      case "stats":
        reply(this.#stats());
        return;
      case "reset":
        this.#reset();
        reply();
        return;
      case "manner":
        this.#manner = { ...this.#manner, ...question.manner };
        reply();
        return;
      case "release":
        for (const end of this.#held.splice(0)) end();
        reply();
        return;
      case "close":
        this.#server.close(() => reply());
        for (const socket of this.#sockets) socket.destroy();
        return;
      case "open":
        void this.open().then(() => reply());
        return;
      case "reaches":
        if (this.#requests >= question.requests) reply();
        else this.#milestones.push({ requests: question.requests, reply });
    }
  }

  #stats(): GatewayStats {
    return {
      requests: this.#requests,
      connections: this.#connections,
      peak: this.#peak,
      sent: [...this.#sent],
      first: this.#first,
      last: this.#last,
      held: this.#heldMicros / 1000 / Math.max(1, this.#requests - this.#running),
      arrivals: this.#arrivals,
    };
  }

  #reset(): void {
    this.#sent = new Map();
    this.#arrivals = [];
    this.#requests = 0;
    this.#connections = 0;
    this.#peak = this.#running;
    this.#first = 0;
    this.#last = 0;
    this.#heldMicros = 0;
  }

  #serve(socket: Socket): void {
    this.#connections++;
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    let pieces = "";
    // Latin-1: one character per byte, so that lengths are those of the wire.
    socket.setEncoding("latin1");
    socket.on("data", (piece: string) => {
      pieces += piece;
      for (;;) {
        const head = pieces.indexOf(HEAD_END);
        if (head < 0) return;
        const length = Number(LENGTH.exec(pieces)?.[1] ?? 0);
        const end = head + HEAD_END.length + length;
        if (pieces.length < end) return;
        this.#request(socket, ID.exec(pieces)?.[1] ?? "");
        pieces = pieces.slice(end);
      }
    });
  }

  #request(socket: Socket, id: string): void {
    const at = micros();
    const { delay, hold, failEvery, arrivals, answers } = this.#manner;
    this.#requests++;
    if (this.#first === 0) this.#first = at;
    this.#sent.set(id, (this.#sent.get(id) ?? 0) + 1);
    if (arrivals) this.#arrivals.push([id, at]);
    this.#peak = Math.max(this.#peak, ++this.#running);
    const fails = failEvery > 0 && !this.#failed.has(id) && this.#sent.size % failEvery === 0;
    if (fails) this.#failed.add(id);
    const end = (): void => {
      this.#running--;
      this.#last = micros();
      this.#heldMicros += this.#last - at;
      const body = JSON.stringify({ id, object: "text_completion", choices: [{ text: "ok" }] });
      const status = fails ? "503 Service Unavailable" : "200 OK";
      const head = `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}`;
      socket.write(`${head}${HEAD_END}${body}`, "latin1");
    };
    if (hold || this.#requests > answers) this.#held.push(end);
    else if (delay === 0) end();
    else setTimeout(end, delay);
    if (this.#milestones.length > 0) this.#passMilestones();
  }

  #passMilestones(): void {
    const passed = this.#milestones.filter(({ requests }) => this.#requests >= requests);
    this.#milestones = this.#milestones.filter(({ requests }) => this.#requests < requests);
    for (const { reply } of passed) reply();
  }
}

if (import.meta.main) {
  const gateway = new BareGateway(Number(process.argv[2]));
  process.on("message", ({ n, question }: { n: number; question: GatewayQuestion }) =>
    gateway.answer(question, (value) => void process.send?.({ n, value })),
  );
  process.on("disconnect", () => process.exit());
  process.send?.({ n: 0, value: await gateway.open().catch(String) });
}
