import { hostname } from "node:os";
import type { Clock } from "../../base/clock/clock.ts";
import { type SeededRandom, uuidFrom } from "../../base/clock/random.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { parseLabelSelector } from "../../base/inference/label-selector.ts";
import type { AppProtocol, OwnHook } from "../../base/plugin/kinds.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import { ELECTION_METRICS } from "../../base/telemetry/pool-metrics.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { type MetricsRegistry, registerTable } from "../../base/telemetry/registry.ts";
import { AccessReview } from "../kubernetes/access-review.ts";
import type { ApiClient } from "../kubernetes/api-client.ts";
import { inCluster } from "../kubernetes/credentials.ts";
import { EventWriter } from "../kubernetes/events.ts";
import { HttpApiClient } from "../kubernetes/http-client.ts";
import { kubeconfig } from "../kubernetes/kubeconfig.ts";
import { LeaderElector } from "../kubernetes/leader-elector.ts";
import { objectivesFromFlags } from "../resources/objectives.ts";
import type { ObjectMeta } from "../resources/objects.ts";
import type { ModelOptions } from "../resources/resolve.ts";
import { ResourceStore } from "../resources/resource-store.ts";
import { clusterMark } from "./cluster-mark.ts";
import { ClusterState, type FollowedKind } from "./cluster-state.ts";
import { MODEL_TYPE } from "./kinds.ts";
import { deploymentName, type KubernetesSettings } from "./kubernetes-settings.ts";
import { modelNotFound, TARGET_MODEL_NOT_FOUND } from "./model-not-found.ts";
import { ModelStatusWriter } from "./model-status-writer.ts";
import { type FollowingCore, type PoolSource, protocolOf } from "./pool-source.ts";

export interface KubernetesPoolParts {
  readonly settings: KubernetesSettings;
  /** `NAME=PRIORITY` each. */
  readonly objectives: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly random: SeededRandom;
  readonly log: Logger;
}

/** The source name of events. */
const COMPONENT = "sluice-epp";

/** The pool of a cluster: pods, API objects, leadership, and the objects that it writes back (api-resources 3). */
export class KubernetesPool implements PoolSource {
  readonly models: ModelOptions;
  readonly hooks: readonly OwnHook[];
  readonly reviews: AccessReview | undefined;
  readonly cluster: string;
  readonly #api: ApiClient;
  readonly #parts: KubernetesPoolParts;
  readonly #store: ResourceStore;
  readonly #events: EventWriter;
  readonly #writer: ModelStatusWriter | undefined;
  #state: ClusterState | undefined;
  #elector: LeaderElector | undefined;
  #stopMetrics: (() => void) | undefined;

  /**
   * Finds the API server, without a request to it.
   * @throws SluiceError KUBERNETES_ACCESS, POD_NAME, LABEL_SELECTOR, FLAG_VALUE, FLAG_CONFLICT, RESOURCE_LIMIT
   */
  static async connect(parts: KubernetesPoolParts): Promise<KubernetesPool> {
    const { env, clock, settings, log } = parts;
    // As in the reference: a file given in a pod means the cluster of that file.
    const file = settings.kubeconfig ?? (env["KUBECONFIG"] || undefined);
    const access = file === undefined ? await inCluster(env, clock) : await kubeconfig(file, { clock });
    if (access === undefined)
      throw new SluiceError(
        "KUBERNETES_ACCESS",
        "Sluice finds no Kubernetes: run sluice in a pod, or name a kubeconfig file with --kubeconfig or KUBECONFIG; without Kubernetes give --endpoints FILE",
      );
    log.info({ server: access.server, namespace: settings.namespace }, "Sluice takes its endpoints from Kubernetes");
    const api = new HttpApiClient({ ...access, clock, log });
    return new KubernetesPool(api, parts, clusterMark(access.credentials.ca));
  }

  /**
   * @param cluster marks the cluster; "" = unknown
   * @throws SluiceError LABEL_SELECTOR, FLAG_VALUE, FLAG_CONFLICT, RESOURCE_LIMIT
   */
  constructor(api: ApiClient, parts: KubernetesPoolParts, cluster = "") {
    const { settings, clock, random, env, log, objectives } = parts;
    const { members, namespace, metricsAuth, matching, standardShedAt, legacyCriticality } = settings;
    this.#api = api;
    this.#parts = parts;
    this.cluster = cluster;
    // A namespace may hold thousands of objects with the same mistake.
    const notices = new RateLimitedLog(log, clock, { intervalMs: 10_000, maxKeys: 20 });
    this.#store = new ResourceStore({
      pool: members.kind === "pool" ? { name: members.name, namespace, group: members.group } : {},
      notice: (text) => void notices.log("warn", text, {}, text),
    });
    const flags = objectivesFromFlags(objectives);
    this.models =
      members.kind === "pool"
        ? { objectives: flags, resources: this.#store, ...{ matching, standardShedAt, legacyCriticality } }
        : { objectives: flags };
    this.reviews = metricsAuth ? new AccessReview({ api, clock }) : undefined;
    const instance = env["POD_NAME"] || hostname();
    this.#events = new EventWriter({ ...{ api, clock, random, log, instance }, component: COMPONENT });
    const { kind, group, version } = MODEL_TYPE;
    const report = ({ namespace: at, name, uid }: ObjectMeta, message: string): void =>
      this.#events.write(
        { ...{ kind, apiVersion: `${group}/${version}`, namespace: at, name, uid } },
        { type: "Warning", reason: TARGET_MODEL_NOT_FOUND, message },
      );
    const plugin = modelNotFound({ resources: this.#store, report, clock });
    this.hooks = [{ name: "model-not-found", type: "model-not-found", plugin }];
    if (settings.writeModelStatus) this.#writer = new ModelStatusWriter({ api, store: this.#store, clock, log });
  }

  async start(core: FollowingCore): Promise<void> {
    const { settings, clock, random, log } = this.#parts;
    const { namespace, members } = settings;
    this.#state = new ClusterState({
      ...{ api: this.#api, namespace, endpoints: core.endpoints, store: this.#store, clock, random, log },
      source:
        members.kind === "pool"
          ? members
          : {
              kind: "selector",
              membership: { namespace, selects: parseLabelSelector(members.selector), ports: members.ports },
            },
    });
    this.#state.start();
    if (settings.leaderElection) this.#elect();
    else this.#writer?.start();
    this.#stopMetrics = showCluster(core, this.#state, clock, this.#elector);
  }

  synced(): boolean {
    return this.#state?.synced ?? false;
  }

  appProtocol(): AppProtocol | undefined {
    return protocolOf(this.#store.pool);
  }

  leader(): boolean | undefined {
    return this.#parts.settings.leaderElection ? (this.#elector?.leading ?? false) : undefined;
  }

  async resign(): Promise<void> {
    this.#writer?.close();
    await this.#elector?.release();
  }

  async close(): Promise<void> {
    this.#stopMetrics?.();
    this.#writer?.close();
    this.#state?.close();
    await this.#elector?.release();
    // Does not wait for an event that is under way.
    const written = this.#events.close();
    await this.#api.close();
    await written;
  }

  #elect(): void {
    const { settings, clock, random, log, env } = this.#parts;
    const { namespace } = settings;
    this.#elector = new LeaderElector({
      ...{ api: this.#api, namespace, clock, random, log },
      name: leaseName(settings, env),
      identity: `${env["POD_NAME"] || hostname()}_${uuidFrom(random)}`,
      onChange: (leading) => {
        if (!leading) log.info({}, "this replica is no longer the leader");
        if (leading) this.#writer?.start();
        else this.#writer?.close();
      },
    });
    this.#elector.start();
  }
}

/** Name of the lease that the replicas of a picker share (api-resources 3.7). */
function leaseName({ namespace, members }: KubernetesSettings, env: KubernetesPoolParts["env"]): string {
  const pool = members.kind === "pool" ? members.name : deploymentName(env);
  return `epp-${namespace}-${pool}.llm-d.ai`;
}

/**
 * Shows how up to date the picture of the cluster is, and which replica leads. Computed whenever the page is rendered.
 * @param state the followed kinds; the same ones every time
 * @param election whether this replica leads; absent = there is no election
 * @returns a function that stops it
 */
export function showCluster(
  { registry, metrics }: { readonly registry: MetricsRegistry; readonly metrics: Metrics },
  state: { kinds(): readonly FollowedKind[] },
  clock: Clock,
  election?: { readonly leading: boolean },
): () => void {
  const startedAt = clock.now();
  const leads = election && registerTable(registry, ELECTION_METRICS).kubernetesLeader.with();
  return registry.onRender(() => {
    for (const { name, state: followed } of state.kinds()) {
      const { absent, kept, heardAt, objects, lists, failures } = followed;
      // An optional kind that is not there must not raise an alert. The state of a kind that may no longer be read grows old.
      if (absent && !kept) metrics.kubernetesHeardAge.remove(name);
      else metrics.kubernetesHeardAge.with(name).set((clock.now() - Math.max(startedAt, heardAt)) / 1000);
      metrics.kubernetesObjects.with(name).set(objects);
      const listed = metrics.kubernetesListsTotal.with(name);
      listed.inc(lists - listed.value);
      const failed = metrics.kubernetesFailuresTotal.with(name);
      failed.inc(failures - failed.value);
    }
    leads?.set(election?.leading ? 1 : 0);
  });
}
