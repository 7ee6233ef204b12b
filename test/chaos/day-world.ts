import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createServer, request as httpRequest, type Server } from "node:http";
import { connect } from "node:net";
import { connect as connectTls } from "node:tls";
import { ask, getJson } from "../support/client.ts";
import { freePort } from "../support/free-port.ts";
import type { ShownEndpoint, TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { PROGRAM, sluice, TestProcess } from "../support/process.ts";
import { portOf } from "../support/stack.ts";
import { sampleOn } from "../support/stalled.ts";
import { Http1Client, type Trust } from "./day-client.ts";
import type { HeapSample } from "./day-memory.ts";

/**
 * Says on SIGUSR2 how large the heap is without garbage, and without what V8 can make again, such as bytecode and type feedback: a
 * collection of an ordinary kind leaves that in place for hours. Each line has a number: the test process forgets old lines.
 */
const WEIGH = `let n=0;process.on("SIGUSR2",()=>{gc({type:"major",execution:"sync",flavor:"last-resort"});process.stderr.write("heap "+ ++n+" "+process.memoryUsage().heapUsed+"\\n")})`;

/** Writes a file as a whole. */
export function put(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** Runs `sluice keys`; its standard output, which is a secret. */
export async function keysTool(file: string, ...args: readonly string[]): Promise<string> {
  const tool = sluice("keys", ...args, "--file", file);
  const { code } = await tool.ended(60_000);
  if (code !== 0) throw new Error(`sluice keys ${args.join(" ")} ended with ${code}: ${tool.stderr}`);
  return tool.stdout.trim();
}

/** A simulator that is ended and comes back on its port. */
export class DayServer {
  process: TestProcess | undefined;
  readonly name: string;
  readonly port: number;
  readonly #args: readonly string[];

  private constructor(name: string, port: number, args: readonly string[]) {
    this.name = name;
    this.port = port;
    this.#args = args;
  }

  static async make(name: string, ...args: readonly string[]): Promise<DayServer> {
    return new DayServer(name, await freePort(), args);
  }

  async start(): Promise<void> {
    const fast = ["--prefill-overhead", "1", "--prefill-time-per-token", "0", "--inter-token-latency", "2"];
    const more = ["--max-num-seqs", "256", "--pod-name", this.name, ...fast, ...this.#args];
    this.process = sluice("sim", "--host", "127.0.0.1", "--port", String(this.port), ...more);
    await this.process.listening("sim");
  }

  /** Requests that it works on. */
  async running(): Promise<number> {
    const { text } = await ask(`http://127.0.0.1:${this.port}/metrics`);
    return Number(/^vllm:num_requests_running\S* (\d+)/m.exec(text)?.[1] ?? Number.NaN);
  }

  async stop(): Promise<void> {
    await this.process?.stop("SIGKILL");
  }
}

/** A front of a server whose metrics page can be held back. */
export class SlowPage {
  readonly port: number;
  readonly #server: Server;
  readonly #held: (() => void)[] = [];
  #slow = false;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.port = port;
  }

  static async before(target: number): Promise<SlowPage> {
    const port = await freePort();
    const page: SlowPage = new SlowPage(
      createServer((request, response) => {
        const { method, url, headers } = request;
        const go = (): void => {
          const onward = httpRequest({ host: "127.0.0.1", port: target, method, path: url, headers }, (answer) => {
            response.writeHead(answer.statusCode ?? 502, answer.headers);
            answer.pipe(response);
            answer.on("error", () => response.destroy());
          });
          onward.on("error", () => response.destroy());
          response.on("close", () => onward.destroy());
          request.pipe(onward);
        };
        if (page.#slow && url === "/metrics") page.#held.push(go);
        else go();
      }),
      port,
    );
    await new Promise<void>((resolve) => page.#server.listen(port, "127.0.0.1", resolve));
    return page;
  }

  hold(on: boolean): void {
    this.#slow = on;
    if (!on) for (const go of this.#held.splice(0)) go();
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** A gateway, and what can be seen of it from outside. */
export class DayGateway {
  readonly gateway: TestGateway;
  readonly log: string;
  #weighed = 0;

  private constructor(gateway: TestGateway, log: string) {
    this.gateway = gateway;
    this.log = log;
  }

  /** @param config path of gateway.yaml, which several gateways may share @param log path of its own log of requests */
  static async start(config: string, log: string): Promise<DayGateway> {
    const node = ["--expose-gc", "--import", `data:text/javascript,${encodeURIComponent(WEIGH)}`];
    const args = ["gateway", "--config", config, "--request-log-file", log];
    const process_ = new TestProcess(process.execPath, [...node, PROGRAM, ...args]);
    const address = await process_.listening("gateway");
    const adminUrl = `http://${await process_.listening("admin")}`;
    const port = portOf(address);
    return new DayGateway({ process: process_, url: `https://127.0.0.1:${port}`, port, adminUrl }, log);
  }

  get port(): number {
    return this.gateway.port;
  }

  async metrics(): Promise<string> {
    return (await ask(`${this.gateway.adminUrl}/metrics`)).text;
  }

  async sample(name: string): Promise<number> {
    return sampleOn(await this.metrics(), name);
  }

  async endpoints(): Promise<readonly ShownEndpoint[]> {
    return (await getJson<{ endpoints: readonly ShownEndpoint[] }>(`${this.gateway.adminUrl}/debug/endpoints`))
      .endpoints;
  }

  /** The state of an endpoint; undefined = it is not in the list. */
  async state(name: string): Promise<string | undefined> {
    return (await this.endpoints()).find(({ id }) => id === `default/${name}`)?.state;
  }

  /** Requests in flight of a rule, as the gateway counts them. */
  async counted(rule: string): Promise<number> {
    const { rules } = await getJson<Shown>(`${this.gateway.adminUrl}/debug/limits`);
    const counters = rules.find((one) => one.rule === rule)?.counters ?? [];
    return counters.reduce((sum, { inFlight }) => sum + inFlight.here, 0);
  }

  /** What still counts as in flight: requests at endpoints, requests of limits, bytes of bodies. */
  async leftovers(): Promise<{ readonly endpoints: number; readonly limits: number; readonly bytes: number }> {
    const { rules } = await getJson<Shown>(`${this.gateway.adminUrl}/debug/limits`);
    return {
      endpoints: (await this.endpoints()).reduce((sum, { inFlight }) => sum + inFlight.requests, 0),
      limits: rules.flatMap(({ counters }) => counters).reduce((sum, { inFlight }) => sum + inFlight.here, 0),
      bytes:
        (await this.sample('sluice_body_budget_bytes{pool="main"}')) +
        (await this.sample('sluice_body_budget_bytes{pool="small"}')),
    };
  }

  /** The heap without garbage, and the decisions until then. */
  async weigh(): Promise<HeapSample> {
    const { process } = this.gateway;
    const line = new RegExp(`^heap ${++this.#weighed} (\\d+)$`, "m");
    process.child.kill("SIGUSR2");
    const bytes = await process.until("the size of the heap", () => line.exec(process.stderr)?.[1]);
    const counts = (await this.metrics()).matchAll(/^llm_d_epp_request_total\{.*\} (\d+)$/gm);
    return { bytes: Number(bytes), decisions: [...counts].reduce((sum, [, count]) => sum + Number(count), 0) };
  }

  /** How often each request id is in the log of requests, files of former days included. */
  logged(): ReadonlyMap<string, number> {
    const times = new Map<string, number>();
    for (const file of [this.log, `${this.log}.1`].filter((path) => existsSync(path)))
      for (const line of readFileSync(file, "utf8").split("\n")) {
        const id = /"requestId":"(day-\d+)"/.exec(line)?.[1];
        if (id !== undefined) times.set(id, (times.get(id) ?? 0) + 1);
      }
    return times;
  }
}

interface Shown {
  readonly rules: readonly {
    readonly rule: string;
    readonly counters: readonly { readonly inFlight: { readonly here: number } }[];
  }[];
}

/** The certificate that a port shows to a new connection, and whether it takes that of the client. */
export function handshake({ port, ca, client }: Trust): Promise<{ readonly shown: string; readonly taken: boolean }> {
  return new Promise((resolve, reject) => {
    let shown = "";
    const socket = connectTls({ port, host: "127.0.0.1", servername: "localhost", ca: [...ca], ...client });
    socket.on("secureConnect", () => {
      shown = socket.getPeerX509Certificate()?.toString() ?? "";
      // With TLS 1.3 a server refuses after the handshake of the client; an answer tells that it did not.
      socket.write("GET /health HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    });
    socket.on("data", () => {
      resolve({ shown, taken: true });
      socket.destroy();
    });
    socket.on("error", (error) => (shown === "" ? reject(error) : resolve({ shown, taken: false })));
    socket.on("close", () => resolve({ shown, taken: false }));
  });
}

/** Takes all data from a Redis server. */
export function flushAll(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write("FLUSHALL\r\n"));
    socket.on("error", reject);
    socket.on("data", (answer) => {
      socket.destroy();
      if (answer.toString().startsWith("+OK")) resolve();
      else reject(new Error(answer.toString()));
    });
  });
}

/** Waits until both gateways see an endpoint in a state. @param state undefined = not in the list */
export async function seenAs(gateways: readonly DayGateway[], name: string, state: string | undefined): Promise<void> {
  await poll(`${name} to be ${state ?? "gone"}`, async () =>
    (await Promise.all(gateways.map((gateway) => gateway.state(name)))).every((seen) => seen === state),
  );
}

/** Waits until all gateways answer a key with a status. */
export async function knowsKey(
  gateways: readonly DayGateway[],
  trust: Trust,
  key: string,
  status: number,
): Promise<void> {
  for (const { port } of gateways)
    await poll(`${status} for the key`, async () => {
      const client = new Http1Client({ ...trust, port });
      const headers = { authorization: `Bearer ${key}` };
      const answer = await client.ask({ method: "GET", path: "/v1/models", headers, leaving: "never" });
      client.close();
      return answer.status === status;
    });
}
