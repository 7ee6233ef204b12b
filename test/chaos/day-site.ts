import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ClientAuthority, clientAuthority } from "../support/certificates.ts";
import { poll } from "../support/poll.ts";
import { type RunningRedis, startRedis } from "../support/redis.ts";
import type { Trust } from "./day-client.ts";
import type { Caller, Wardrobe } from "./day-traffic.ts";
import { DayGateway, DayServer, handshake, keysTool, put, SlowPage, seenAs } from "./day-world.ts";

/** Each limit of a caller. */
export const REQUESTS = 60;
export const TOKENS = 600;
export const IN_FLIGHT = 3;
/** The model server that a changed configuration of the picker leaves out. */
export const SPARE = "a1";

const MODELS = ["alpha", "beta", "alpha-sql"];
const CALLERS = ["steady", "late", "leaver", "limited", "thrifty", "crowd"];

/** `gateway.yaml` of all gateways. Full records every 16 decisions: the process soon has all 64 that it keeps. */
const gatewayText = (redis: string, more: string): string => `listeners:
- { address: 127.0.0.1:0, tls: { certificate: tls.crt, key: tls.key, clientCa: clients.crt } }
admin: { address: 127.0.0.1:0 }
keys: { file: keys.yaml }
limits: { file: limits.yaml, redis: "${redis}" }
endpoints: { file: endpoints.yaml }
bodies: { small: 4Ki }
explain: { fullRecordsEvery: 16 }
log: { requests: { which: all } }
${more}`;

const limitsText = (more: string): string => `rules:
- { key: limited, requestsPerMinute: ${REQUESTS} }
- { key: thrifty, tokensPerMinute: ${TOKENS} }
- { key: crowd, inFlight: ${IN_FLIGHT} }
- { model: alpha, requestsPerMinute: 10000000 }
${more}`;

/** A picker that leaves out the server with the label. */
export const STEERED = `picker:
  config:
    apiVersion: llm-d.ai/v1alpha1
    kind: EndpointPickerConfig
    plugins:
    - type: label-selector-filter
      parameters: { matchExpressions: [{ key: tier, operator: NotIn, values: [spare] }] }
    - type: active-request-scorer
    - type: max-score-picker
    schedulingProfiles:
    - name: default
      plugins:
      - { pluginRef: label-selector-filter }
      - { pluginRef: active-request-scorer, weight: 1 }
      - { pluginRef: max-score-picker }
`;

/** Whatever has to be stopped at the end. */
export interface Stoppable {
  stop(): Promise<unknown>;
}

type Parts = Pick<DaySite, "servers" | "redis" | "front" | "authorities">;

/** Where a day takes place: two gateways that share one folder of files, their model servers, and a Redis server. */
export class DaySite {
  readonly folder = mkdtempSync(join(tmpdir(), "sluice-day-"));
  /** All secrets that count, by the name of the key. */
  readonly secrets = new Map<string, string>();
  readonly gateways: DayGateway[] = [];
  /** Two servers of one model and its adapter, one that comes later, and two servers of another model. */
  readonly servers: Readonly<Record<"a0" | "a1" | "a2" | "b0" | "b1", DayServer>>;
  readonly redis: RunningRedis;
  readonly front: SlowPage;
  /** The one before and the one after the renewal of the certificates. */
  readonly authorities: readonly [ClientAuthority, ClientAuthority];
  readonly wardrobe: Wardrobe;
  /** All that runs, in the order of its start. */
  readonly #running: Stoppable[];

  private constructor({ servers, redis, front, authorities }: Parts, running: Stoppable[]) {
    this.servers = servers;
    this.redis = redis;
    this.front = front;
    this.authorities = authorities;
    this.wardrobe = { ca: authorities.map(({ ca }) => ca), client: authorities[0].client };
    this.#running = running;
  }

  /** Starts everything. @param running takes all that has to be stopped, also where the start fails */
  static async start(running: Stoppable[]): Promise<DaySite> {
    const authorities = [await clientAuthority(), await clientAuthority()] as const;
    const redis = await startRedis();
    running.push(redis);
    const alpha = ["--model", "alpha", "--lora-modules", "alpha-sql=/adapters/sql", "--max-loras", "2"];
    const beta = ["--model", "beta"];
    const servers = {
      a0: await DayServer.make("a0", ...alpha),
      a1: await DayServer.make("a1", ...alpha),
      a2: await DayServer.make("a2", ...alpha),
      b0: await DayServer.make("b0", ...beta),
      b1: await DayServer.make("b1", ...beta),
    };
    const { a0, a1, b0, b1 } = servers;
    running.push(...Object.values(servers));
    await Promise.all([a0, a1, b0, b1].map((server) => server.start()));
    const front = await SlowPage.before(b1.port);
    running.push(front);
    const site = new DaySite({ servers, redis, front, authorities }, running);
    await site.#open();
    return site;
  }

  async #open(): Promise<void> {
    const { a0, a1, b0, b1 } = this.servers;
    const [first] = this.authorities;
    this.list(a0, a1, b0, b1);
    for (const name of CALLERS) this.secrets.set(name, await keysTool(this.file("keys.yaml"), "add", "--name", name));
    this.limit();
    this.put("tls.crt", first.server.cert);
    this.put("tls.key", first.server.key);
    this.put("clients.crt", first.ca);
    this.configure();
    const started = [0, 1].map((n) => DayGateway.start(this.file("gateway.yaml"), this.file(`requests-${n}.log`)));
    this.gateways.push(...(await Promise.all(started)));
    this.#running.push(...this.gateways.map(({ gateway }) => gateway.process));
    for (const { name } of [a0, a1, b0, b1]) await seenAs(this.gateways, name, "up");
  }

  file(name: string): string {
    return join(this.folder, name);
  }

  put(name: string, text: string): void {
    put(this.file(name), text);
  }

  /** Writes the endpoints file. A front with a page that can be held back stands before b1. */
  list(...servers: readonly DayServer[]): void {
    const entries = servers.map((server) => {
      const port = server === this.servers.b1 ? this.front.port : server.port;
      const labels = server.name === SPARE ? ", labels: { tier: spare }" : "";
      return `- { name: ${server.name}, address: 127.0.0.1, port: ${port}${labels} }\n`;
    });
    this.put("endpoints.yaml", `endpoints:\n${entries.join("")}`);
  }

  /** Writes gateway.yaml. @param more what it says beyond the day's usual content */
  configure(more = ""): void {
    this.put("gateway.yaml", gatewayText(this.redis.url, more));
  }

  /** Writes the limits. @param more further rules */
  limit(more = ""): void {
    this.put("limits.yaml", limitsText(more));
  }

  /** The ports at which the gateways reach model servers. */
  get serverPorts(): ReadonlySet<number> {
    return new Set([...Object.values(this.servers).map(({ port }) => port), this.front.port]);
  }

  /** Waits until a sample of the metrics page of each gateway has the value. */
  async all(what: string, sample: string, wanted: (value: number) => boolean): Promise<void> {
    await poll(what, async () =>
      (await Promise.all(this.gateways.map((gateway) => gateway.sample(sample)))).every(wanted),
    );
  }

  /** Runs a change of gateway.yaml, and waits until it is in force at each gateway. */
  async reload(change: () => void): Promise<void> {
    const applied = 'sluice_gateway_file_reloads_total{result="applied"}';
    const before = await Promise.all(this.gateways.map((gateway) => gateway.sample(applied)));
    change();
    await poll("the changed file to be in force", async () => {
      const now = await Promise.all(this.gateways.map((gateway) => gateway.sample(applied)));
      return now.every((count, n) => count > before[n]!);
    });
  }

  /** Waits until each gateway shows a certificate to the clients of the moment. */
  async shows({ server }: ClientAuthority): Promise<void> {
    await poll("the certificate in force", async () => {
      const seen = await Promise.all(this.gateways.map(({ port }) => handshake({ ...this.wardrobe, port })));
      return seen.every(({ shown, taken }) => taken && shown.trim() === server.cert.trim());
    });
  }

  /** Waits until each gateway takes the clients of an authority, or refuses them. */
  async takes({ client }: ClientAuthority, taken: boolean): Promise<void> {
    await poll(`clients to be ${taken ? "let in" : "refused"}`, async () => {
      const { ca } = this.wardrobe;
      const seen = await Promise.all(this.gateways.map(({ port }) => handshake({ ca, client, port })));
      return seen.every((one) => one.taken === taken);
    });
  }

  /** What a client of the moment connects with; the port is that of the first gateway. */
  get trust(): Trust {
    return { port: this.gateways[0]!.port, ...this.wardrobe };
  }

  /** Who sends what. The former secret of `steady` has a caller of its own; `newcomer` has no key yet. */
  callers(): readonly Caller[] {
    const former = this.secrets.get("steady")!;
    const sends = (name: string, more: Partial<Caller> = {}): Caller => ({
      ...{ name, key: () => this.secrets.get(name), models: MODELS, clients: [1, 1], short: false },
      ...more,
    });
    return [
      sends("steady", { clients: [5, 2] }),
      sends("former", { key: () => former, clients: [2, 0] }),
      ...["late", "leaver", "newcomer"].map((name) => sends(name)),
      sends("limited", { short: true, models: ["alpha"] }),
      sends("thrifty", { short: true, models: ["beta"] }),
      sends("crowd", { short: true, clients: [4, 3] }),
    ];
  }
}
