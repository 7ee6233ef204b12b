import { request as httpRequest } from "node:http";
import { text as textOf } from "node:stream/consumers";
import type { Explanation } from "../../src/picker/decisions/explain.ts";
import type { PeersView } from "../../src/pool/peers/peers-view.ts";
import { ask, chat, getJson, JSON_HEADERS } from "../support/client.ts";
import { type RunningEnvoy, startEnvoy } from "../support/envoy.ts";
import { freePort, onFreePorts } from "../support/free-port.ts";
import { poll } from "../support/poll.ts";
import { type RunningRedis, startRedis } from "../support/redis.ts";
import { type Epp, endpointsFile, type Sim, startEpp, startSims } from "../support/stack.ts";
import { type TcpProxy, tcpProxy } from "../support/tcp-proxy.ts";

/** Milliseconds that a model server takes for each token of an answer: one of 100,000 tokens outlasts any test. */
const TOKEN_MS = 50;
const ENDLESS = 100_000;

/** Of the replicas in the store. */
export const NAME = "llm/pool";
const argsFor = ({ port }: TcpProxy): string[] => ["--peers", `redis://127.0.0.1:${port}`, "--peers-name", NAME];
/** Model servers whose answers are as long as a test wants. */
const SLOW = ["--max-model-len", "1000000", "--inter-token-latency", `${TOKEN_MS}ms`];

/** What a picker decided about a request. */
export interface Decision {
  /** Its number among the replicas. */
  readonly replica: number;
  /** `host:port`. */
  readonly server: string;
  /** 0 to 1 for each `host:port`. */
  readonly prefix: ReadonlyMap<string, number>;
}

/** Replicas of a picker that share through one store, behind one Envoy, in front of three model servers. */
export class Pickers {
  readonly store: RunningRedis;
  /** Stands between the pickers and the store. */
  readonly proxy: TcpProxy;
  readonly sims: readonly Sim[];
  readonly replicas: Epp[];
  readonly envoy: RunningEnvoy;
  /** Pickers of another cluster before the same servers: nobody but them counts their requests. */
  readonly strangers: Pick<Epp, "adminUrl">[] = [];
  readonly endpoints: string;

  private constructor(parts: Pick<Pickers, "store" | "proxy" | "sims" | "replicas" | "envoy">, endpoints: string) {
    ({ store: this.store, proxy: this.proxy, sims: this.sims, replicas: this.replicas, envoy: this.envoy } = parts);
    this.endpoints = endpoints;
  }

  /**
   * @param simArgs options of the model servers
   * @param blind Envoy never notices that a picker is gone, as in the first moments after its death
   */
  static async start(count = 3, simArgs: readonly string[] = SLOW, blind = false): Promise<Pickers> {
    const store = await startRedis();
    const proxy = await tcpProxy(store.port);
    const sims = await startSims(3, simArgs);
    const ports = sims.map(({ port }) => port);
    const endpoints = endpointsFile(ports);
    // Ports of their own, so that a replica can come back to its port.
    const start = async (): Promise<Epp> =>
      onFreePorts(async () => startEpp(endpoints, await freePort(), argsFor(proxy)));
    const replicas = await Promise.all(Array.from({ length: count }, start));
    const [first, ...more] = replicas.map(({ port }) => ({ host: "127.0.0.1", port }));
    const envoy = await startEnvoy({
      variant: "standalone",
      eppPort: first!.port,
      serverPorts: ports,
      bootstrap: { morePickers: more },
      concurrency: 1,
      edit: (yaml) => {
        const seen = blind ? blindfold(yaml) : yaml;
        return count === 1 ? seen : inTurn(seen);
      },
    });
    await envoy.findsPickers(count);
    return new Pickers({ store, proxy, sims, replicas, envoy }, endpoints);
  }

  /** Starts a replica that was ended again, on its port. */
  async restart(n: number): Promise<void> {
    this.replicas[n] = await startEpp(this.endpoints, this.replicas[n]!.port, argsFor(this.proxy));
  }

  /** Of Envoy. */
  get origin(): string {
    return `http://127.0.0.1:${this.envoy.port}`;
  }

  get url(): string {
    return `${this.origin}/v1/chat/completions`;
  }

  get live(): readonly Epp[] {
    return this.replicas.filter(({ process }) => process.exit === undefined);
  }

  /** Resolves when each living replica hears so many others and is in step with the log. */
  async allHear(others: number): Promise<void> {
    for (const epp of this.live)
      await poll("the replicas to hear each other", async () => {
        const { state, replicas } = await peersOf(epp);
        return state === "in-step" && replicas.filter(({ state: is }) => is === "live").length === others;
      });
  }

  /** Resolves when each living replica has read what all of them have placed. */
  async logIsRead(): Promise<void> {
    await poll("the log to be read", async () => {
      const views = await Promise.all(this.live.map(peersOf));
      const most = Math.max(...views.map(({ received }) => received.placed));
      return most > 0 && views.every(({ received, waiting }) => received.placed === most && waiting === 0);
    });
  }

  /** Sends a chat with this prompt and waits for its answer. */
  async send(prompt: string): Promise<{ readonly status: number; readonly id: string }> {
    const { status, headers } = await ask(this.url, { headers: JSON_HEADERS, body: chat(prompt, { max_tokens: 1 }) });
    return { status, id: String(headers["x-request-id"]) };
  }

  /** The decision about a request: which replica made it, which server it chose, and the score of each server's prefix cache. */
  async decisionOn(id: string): Promise<Decision> {
    const found = await Promise.all(
      this.replicas.map(({ adminUrl }) => getJson<Partial<Explanation>>(`${adminUrl}/debug/decisions/${id}`)),
    );
    const replica = found.findIndex(({ candidates }) => candidates !== undefined);
    if (replica < 0) throw new Error(`no picker knows the decision on ${id}`);
    const { candidates = [] } = found[replica]!;
    const scoreOf = ({ scores }: (typeof candidates)[number]): number =>
      scores.find(({ scorer }) => scorer === "prefix-cache-scorer")!.score;
    return {
      replica,
      server: candidates[0]!.hostPort,
      prefix: new Map(candidates.map((candidate) => [candidate.hostPort, scoreOf(candidate)])),
    };
  }

  /** Begins chats that run until `end` is called. */
  begin(count: number, prompt: (n: number) => string): { end(): void } {
    const abort = new AbortController();
    for (let n = 0; n < count; n++) {
      const body = chat(prompt(n), { max_tokens: ENDLESS, stream: true });
      ask(this.url, { headers: JSON_HEADERS, body, signal: abort.signal }).catch(() => {});
    }
    return { end: () => abort.abort() };
  }

  /**
   * Sends the first half of a chat's body, and resolves when a picker has it.
   * @returns sends the rest @returns the status, and the prompt tokens that the server counted
   */
  async sendHalf(prompt: string): Promise<() => Promise<{ readonly status: number; readonly tokens: number }>> {
    const body = chat(prompt, { max_tokens: 1 });
    const half = body.length >> 1;
    const active = await this.envoy.stat("cluster.epp.upstream_rq_active");
    const request = httpRequest(this.url, { method: "POST", headers: JSON_HEADERS, agent: false });
    const answered = new Promise<{ status: number; tokens: number }>((resolve, reject) => {
      request.on("error", reject);
      request.on("response", async (response) => {
        const text = await textOf(response);
        const { usage } = JSON.parse(text || "{}") as { usage?: { prompt_tokens: number } };
        resolve({ status: response.statusCode ?? 0, tokens: usage?.prompt_tokens ?? 0 });
      });
    });
    request.write(body.slice(0, half));
    await poll("Envoy to ask a picker", async () => (await this.envoy.stat("cluster.epp.upstream_rq_active")) > active);
    return () => {
      request.end(body.slice(half));
      return answered;
    };
  }

  /** The requests that each model server runs, in the order of the servers. */
  async running(): Promise<number[]> {
    const pages = await this.#pages();
    return pages.map((page) => figureOf(page, "num_requests_running") + figureOf(page, "num_requests_waiting"));
  }

  /** Prompt tokens that the model servers looked up in their prefix caches, and those that they found. */
  async lookedUp(): Promise<{ readonly asked: number; readonly found: number }> {
    const pages = await this.#pages();
    const all = (name: string): number => sumOf(pages.map((page) => figureOf(page, name)));
    return { asked: all("prefix_cache_queries_total"), found: all("prefix_cache_hits_total") };
  }

  /** The metrics of each model server. */
  #pages(): Promise<string[]> {
    return Promise.all(this.sims.map(async ({ url }) => (await ask(`${url}/metrics`)).text));
  }

  /**
   * Resolves when every living replica counts in flight what the servers run, to the request, and that is `total`. What strangers
   * count as theirs is no part of it.
   */
  async countsAgree(total?: number): Promise<void> {
    const counts = async (): Promise<string[]> => {
      const foreign = await Promise.all(this.strangers.map((one) => inFlightOf(one, this.sims)));
      const running = (await this.running()).map((one, i) => one - sumOf(foreign.map((theirs) => theirs[i]!)));
      const known = await Promise.all(this.live.map((epp) => inFlightOf(epp, this.sims)));
      const sum = sumOf(running);
      if (total !== undefined && sum !== total) return [`servers run ${sum}, not ${total}`];
      return known.flatMap((one, i) => (String(one) === String(running) ? [] : [`${i} counts ${one}, not ${running}`]));
    };
    await poll("all replicas to count what the servers run", async () => {
      const wrong = await counts();
      if (wrong.length > 0) throw new Error(wrong.join("; "));
      return true;
    });
  }

  async stop(): Promise<void> {
    const parts = [...this.sims, ...this.replicas, this.envoy];
    await Promise.all(parts.map(({ process }) => process.stop("SIGKILL")));
    await this.proxy.close();
    await this.store.stop();
  }
}

/** Each replica gets its part of each group of requests. */
function inTurn(yaml: string): string {
  return replaced(yaml, /^( *)lb_policy: LEAST_REQUEST$/m, "$1lb_policy: ROUND_ROBIN");
}

/** Neither failed connections nor health checks count. */
function blindfold(yaml: string): string {
  const unheeding = replaced(
    yaml,
    /^( *)consecutive_local_origin_failure: .*$/m,
    "$&\n$1enforcing_consecutive_local_origin_failure: 0",
  );
  return replaced(unheeding, /unhealthy_threshold: .*$/m, "unhealthy_threshold: 1000000");
}

function replaced(yaml: string, part: RegExp, by: string): string {
  if (!part.test(yaml)) throw new Error(`the configuration has no ${part}`);
  return yaml.replace(part, by);
}

function figureOf(page: string, name: string): number {
  return Number(new RegExp(`^vllm:${name}\\{.*\\} (\\S+)$`, "m").exec(page)?.[1]);
}

function sumOf(figures: readonly number[]): number {
  return figures.reduce((sum, one) => sum + one, 0);
}

/** What a replica says of the others. */
export function peersOf({ adminUrl }: Pick<Epp, "adminUrl">): Promise<PeersView> {
  return getJson(`${adminUrl}/debug/peers`);
}

/** The requests that a replica counts in flight at each server, those of its peers included. */
async function inFlightOf({ adminUrl }: Pick<Epp, "adminUrl">, sims: readonly Sim[]): Promise<number[]> {
  const { endpoints } = await getJson<{ endpoints: { hostPort: string; inFlight: { requests: number } }[] }>(
    `${adminUrl}/debug/endpoints`,
  );
  return sims.map(({ port }) => endpoints.find((one) => one.hostPort.endsWith(`:${port}`))!.inFlight.requests);
}
