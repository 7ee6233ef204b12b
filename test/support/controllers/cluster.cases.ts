import { readdirSync, readFileSync } from "node:fs";
import { afterAll, afterEach } from "vitest";
import { parse } from "yaml";
import { SeededRandom } from "../../../src/base/clock/random.ts";
import { realClock } from "../../../src/base/clock/real.ts";
import { VirtualClock } from "../../../src/base/clock/virtual.ts";
import type { Logger } from "../../../src/base/telemetry/logger.ts";
import { ClusterState, type MembershipSource } from "../../../src/pool/controllers/cluster-state.ts";
import { ModelStatusWriter } from "../../../src/pool/controllers/model-status-writer.ts";
import { EndpointRegistry } from "../../../src/pool/endpoints/registry.ts";
import { HttpApiClient } from "../../../src/pool/kubernetes/http-client.ts";
import { GROUP } from "../../../src/pool/resources/objects.ts";
import { ResourceStore } from "../../../src/pool/resources/resource-store.ts";
import { type ApiObject, startStandIn, type TestApiServer, type TestUser } from "../apiserver/index.ts";
import { poll } from "../poll.ts";

const CRDS = new URL("../../../deploy/crds/", import.meta.url);

/** An API server whose objects are made when `time` says; with the definitions whose file names `wanted` takes. */
export class TestCluster {
  readonly server: TestApiServer;
  readonly #time: { ms: number };

  static async start(wanted?: (file: string) => boolean): Promise<TestCluster> {
    const time = { ms: Date.parse("2026-01-01T00:00:00Z") };
    const cluster = new TestCluster(await startStandIn({ now: () => time.ms }), time);
    await cluster.install(wanted);
    return cluster;
  }

  private constructor(server: TestApiServer, time: { ms: number }) {
    this.server = server;
    this.#time = time;
  }

  async install(wanted: (file: string) => boolean = () => true): Promise<void> {
    for (const file of readdirSync(CRDS).filter(wanted))
      await this.server.put(parse(readFileSync(new URL(file, CRDS), "utf8")) as object);
  }

  /** What is made from now on is younger by so many seconds. */
  pass(seconds: number): void {
    this.#time.ms += seconds * 1000;
  }

  /** Wall-clock milliseconds. */
  get now(): number {
    return this.#time.ms;
  }
}

interface FollowerOptions {
  readonly namespace: string;
  /** Default: the pool `pool`, of whatever group. */
  readonly source?: MembershipSource;
  /** Default: the admin's. */
  readonly token?: string;
  /** Objects that its store takes. */
  readonly maxObjects?: number;
}

/** What follows a namespace of a test cluster, in virtual time, over real sockets. */
export class Follower {
  readonly clock: VirtualClock;
  readonly store: ResourceStore;
  readonly endpoints: EndpointRegistry;
  readonly state: ClusterState;
  readonly writer: ModelStatusWriter;
  readonly api: HttpApiClient;
  readonly infos: string[] = [];
  readonly warnings: string[] = [];
  readonly errors: string[] = [];

  constructor(cluster: TestCluster, { namespace, source, token = cluster.server.token, maxObjects }: FollowerOptions) {
    const { url, ca } = cluster.server;
    const { infos, warnings, errors } = this;
    const log: Logger = {
      debug() {},
      info: (_, text) => infos.push(text),
      warn: (_, text) => warnings.push(text),
      error: (_, text) => errors.push(text),
      child: () => log,
    };
    this.clock = new VirtualClock(cluster.now);
    const random = new SeededRandom(1);
    const { clock } = this;
    this.store = new ResourceStore({
      pool: { namespace, name: "pool", group: source?.kind === "pool" ? source.group : undefined },
      notice: (text) => warnings.push(text),
      ...(maxObjects === undefined ? {} : { maxObjects }),
    });
    this.endpoints = new EndpointRegistry({ clock, random });
    this.api = new HttpApiClient({
      server: url,
      credentials: { ca, insecureSkipVerify: false, token: async () => token },
      clock: realClock,
    });
    const { api, store, endpoints } = this;
    const ours = source ?? { kind: "pool", name: "pool", group: undefined };
    this.state = new ClusterState({ api, namespace, source: ours, endpoints, store, clock, random, log });
    this.writer = new ModelStatusWriter({ api, store, clock, log });
  }

  /** Begins to follow and waits until everything was seen once. */
  async start(): Promise<this> {
    this.state.start();
    await this.until("everything to be seen", () =>
      this.state.kinds().every(({ state }) => state.synced || state.absent),
    );
    return this;
  }

  /** Waits for something, while so many virtual milliseconds pass before each look. */
  until<T>(what: string, probe: () => T | Promise<T>, step = 250): Promise<NonNullable<T>> {
    return poll(what, () => {
      this.clock.advance(step);
      return probe();
    });
  }

  /** Waits until the endpoints are these, in any order; `name` or `name=host:port` each. */
  async endpointsAre(...wanted: readonly string[]): Promise<void> {
    const all = JSON.stringify([...wanted].sort());
    const shown = () =>
      JSON.stringify(
        this.endpoints
          .list()
          .map(({ name, hostPort }) => (wanted.some((text) => text.includes("=")) ? `${name}=${hostPort}` : name))
          .sort(),
      );
    await this.until(`endpoints ${all}`, () => {
      if (shown() !== all) throw new Error(shown());
      return true;
    });
  }

  async close(): Promise<void> {
    this.writer.close();
    this.state.close();
    await this.api.close();
  }
}

interface Meta {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
}

interface ModelOptions {
  readonly pool?: string;
  readonly targets?: readonly string[];
  readonly criticality?: "Critical" | "Standard" | "Sheddable";
  readonly meta?: Meta;
}

/** A namespace of its own, its objects, and what follows it. */
export interface Place {
  readonly namespace: string;
  readonly objects: Objects;
  /** Makes a follower that ends with the test. */
  follower(options?: Partial<FollowerOptions>): Follower;
}

/**
 * The cluster of a test file, to be called at its top: it ends with the file, and what follows it with each test.
 * @param prefix of the namespaces
 */
export async function clusterOfFile(prefix: string) {
  const cluster = await TestCluster.start();
  afterAll(() => cluster.server.close());
  const followers: Follower[] = [];
  afterEach(async () => {
    for (const follower of followers.splice(0)) await follower.close();
  });
  let namespaces = 0;
  const place = (where = cluster): Place => {
    const namespace = `${prefix}-${++namespaces}`;
    const follower = (options: Partial<FollowerOptions> = {}): Follower => {
      const made = new Follower(where, { namespace, ...options });
      followers.push(made);
      return made;
    };
    return { namespace, objects: new Objects(where, namespace), follower };
  };
  return { cluster, place };
}

/** Makes objects of one namespace. */
class Objects {
  readonly #cluster: TestCluster;
  readonly #namespace: string;
  /** Names of pods in the order in which they came. */
  readonly #pods: string[] = [];

  constructor(cluster: TestCluster, namespace: string) {
    this.#cluster = cluster;
    this.#namespace = namespace;
  }

  /** @param group `GROUP.stable` = v1, with as many ports as wanted; otherwise v1alpha2, with one */
  pool(
    spec: { app: string; ports?: readonly number[]; group?: string; name?: string; picker?: string },
    meta: Meta = {},
  ) {
    const { app, ports = [8000], group = GROUP.stable, name = "pool", picker = "epp" } = spec;
    return this.#put(`${group}/${group === GROUP.stable ? "v1" : "v1alpha2"}`, "InferencePool", name, meta, {
      spec:
        group === GROUP.stable
          ? {
              selector: { matchLabels: { app } },
              targetPorts: ports.map((number) => ({ number })),
              endpointPickerRef: { name: picker, port: { number: 9002 } },
            }
          : { selector: { app }, targetPortNumber: ports[0], extensionRef: { name: picker } },
    });
  }

  /** A pod that is ready, unless said otherwise; the first one has 10.0.0.1, and so on. */
  pod(name: string, app: string, more: Meta & { address?: string; ready?: "True" | "False" } = {}) {
    if (!this.#pods.includes(name)) this.#pods.push(name);
    const { address = `10.0.0.${this.#pods.indexOf(name) + 1}`, ready = "True", ...meta } = more;
    return this.#put(
      "v1",
      "Pod",
      name,
      { labels: { app }, ...meta },
      {
        status: { podIP: address, conditions: [{ type: "Ready", status: ready }] },
      },
    );
  }

  model(name: string, modelName: string, more: ModelOptions = {}) {
    const { pool = "pool", targets, criticality, meta = {} } = more;
    const targetModels = targets?.map((target) => ({ name: target, weight: 1 }));
    return this.#put(`${GROUP.experimental}/v1alpha2`, "InferenceModel", name, meta, {
      spec: {
        ...{ modelName, poolRef: { name: pool } },
        ...(targetModels === undefined ? {} : { targetModels }),
        ...(criticality === undefined ? {} : { criticality }),
      },
    });
  }

  /** @param group of the objective; the pool's is that of `poolGroup` */
  objective(name: string, priority: number | undefined, group: string = GROUP.llmd, poolGroup: string = GROUP.stable) {
    return this.#put(
      `${group}/v1alpha2`,
      "InferenceObjective",
      name,
      {},
      {
        spec: { ...(priority === undefined ? {} : { priority }), poolRef: { name: "pool", group: poolGroup } },
      },
    );
  }

  rewrite(name: string, model: string | undefined, target: string, group: string = GROUP.llmd) {
    const matches = model === undefined ? {} : { matches: [{ model: { type: "Exact", value: model } }] };
    return this.#put(
      `${group}/v1alpha2`,
      "InferenceModelRewrite",
      name,
      {},
      {
        spec: {
          rules: [{ ...matches, targets: [{ modelRewrite: target, weight: 1 }] }],
          poolRef: { name: "pool", group: GROUP.stable },
        },
      },
    );
  }

  path(kind: string, name: string, group: string = GROUP.experimental, version = "v1alpha2"): string {
    const root = group === "" ? "/api/v1" : `/apis/${group}/${version}`;
    return `${root}/namespaces/${this.#namespace}/${kind}/${name}`;
  }

  async delete(kind: string, name: string, group?: string, version?: string): Promise<void> {
    await this.#cluster.server.delete(this.path(kind, name, group, version));
  }

  #put(apiVersion: string, kind: string, name: string, meta: Meta, rest: object): Promise<ApiObject> {
    const metadata = { name, namespace: this.#namespace, ...meta };
    return this.#cluster.server.put({ apiVersion, kind, metadata, ...rest });
  }
}

/** The permission to read kinds of a group in a namespace. */
export function mayRead(namespace: string, group: string, ...resources: string[]): NonNullable<TestUser["rules"]>[0] {
  return { verbs: ["get", "list", "watch"], apiGroups: [group], resources, namespace };
}
