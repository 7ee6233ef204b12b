import {
  type Endpoint,
  type EndpointMetrics,
  type EndpointState,
  hostPort,
  type InFlightLoad,
  type PeerLoad,
  UNKNOWN_METRICS,
  type UnscrapedLoad,
} from "../../base/inference/endpoint.ts";
import type { ServedModels } from "./served-models.ts";

/** The address of an endpoint's metrics page. */
export interface MetricsHost {
  /** Literal IP without brackets, or a host name. */
  readonly address: string;
  /** 1..65535; a port that is configured for all pages has precedence. */
  readonly port: number;
}

/** The identity of an endpoint, without its state. */
export interface EndpointSpec {
  readonly namespace: string;
  readonly name: string;
  /** Literal IP without brackets, or a host name. */
  readonly address: string;
  /** 1..65535 */
  readonly port: number;
  /** Absent = as the gateway says for all endpoints. */
  readonly scheme?: "http" | "https" | undefined;
  /** Data-parallel rank, from 0 up. */
  readonly rank: number;
  readonly labels: Readonly<Record<string, string>>;
  /** Name and address of the node of its pod; absent = unknown. */
  readonly node?: string | undefined;
  readonly nodeAddress?: string | undefined;
  /** Absent = the serving address. */
  readonly metricsHost?: MetricsHost;
  /** The models that the endpoints file states. Absent, or from a server = the list of the server counts, where it is asked. */
  readonly models?: ServedModels | undefined;
}

/** Requests and tokens in flight, changed by `InFlight` alone. */
export class InFlightCounts implements InFlightLoad {
  requests = 0;
  tokens = 0;
}

/** What was sent since the last scrape began. `InFlight` counts up, the collector takes off what a scrape has seen. */
export class UnscrapedCounts implements UnscrapedLoad {
  requests = 0;
  tokens = 0;
  capacity = 0;
  /** `capacity`, as far as this process saw it itself. */
  seen = 0;

  /** A scrape that began when the counts were `seen` has read `metrics`. */
  scraped(seen: InFlightLoad, { waiting, running }: EndpointMetrics): void {
    this.requests -= seen.requests;
    this.tokens -= seen.tokens;
    if (Number.isNaN(running)) return;
    this.capacity = waiting > 0 ? running : Math.max(this.capacity, running);
    this.seen = waiting > 0 ? running : Math.max(this.seen, running);
  }

  /** A peer saw the engine run as many requests at once. It counts where this process has seen none. */
  told(requests: number): void {
    if (this.seen === 0) this.capacity = Math.max(this.capacity, requests);
  }
}

/** The load of peers at an endpoint, which hears what this process sends. */
export interface PeerPart extends PeerLoad {
  /** This process has sent a request. @param now monotonic milliseconds */
  sent(tokens: number, now: number): void;
}

/**
 * A look at the models of a server that is new or back from `down`. `open`: soon it has answered, so requests for a model that
 * no endpoint lists may wait. `overdue`: it did not answer in time. Until it is `over`, the endpoint serves only models that no
 * other endpoint lists, because a server answers 404 for a model that it lacks.
 */
export type ModelLook = "open" | "overdue" | "over";

/**
 * The one implementation of `Endpoint`. Its mutable fields have one writer each: the registry (labels, rank, metricsHost, models,
 * modelLook, removed), `EndpointStates` (state and its history), `InFlight` (inFlight, own, peers, unscraped, lastTrafficAt), the collector (metrics, unscraped, intervals).
 */
export class PoolEndpoint implements Endpoint {
  readonly id: string;
  readonly slot: number;
  readonly namespace: string;
  readonly name: string;
  readonly address: string;
  readonly port: number;
  readonly hostPort: string;
  readonly scheme: "http" | "https" | undefined;
  rank: number;
  labels: Readonly<Record<string, string>>;
  node: string | undefined;
  nodeAddress: string | undefined;
  /** Changed by `SidePages` alone. */
  readonly attributes = new Map<string, number>();
  listedModels: readonly string[] | undefined;
  /** The same object while its content is the same. */
  metricsHost: MetricsHost;
  /** Undefined = unknown: it counts as serving every model. */
  models: ServedModels | undefined;
  /** How far the first look at the models of the server is. An answer that lists no models ends it, too. */
  modelLook: ModelLook = "over";
  /** True after the registry has removed it; exchanges may still hold it. */
  removed = false;

  state: EndpointState = "up";
  /** Why it is in this state, for people. */
  cause = "not scraped yet";
  /** Monotonic milliseconds of the last change of state. */
  since: number;
  /** Wall-clock milliseconds of the last change of state. */
  sinceWall: number;
  /** Failed tries in a row while down: the step of the back-off. */
  failures = 0;
  /** While down: monotonic milliseconds before which it is not tried again. */
  retryAt = Number.NEGATIVE_INFINITY;

  /** What decisions see: the load of this process and of its peers. */
  readonly inFlight = new InFlightCounts();
  /** The part that this process has sent: the same object until replicas share their load. */
  own = this.inFlight;
  peers: PeerPart | undefined = undefined;
  readonly unscraped = new UnscrapedCounts();
  /** Monotonic milliseconds at which its last in-flight request ended. */
  lastTrafficAt = Number.NEGATIVE_INFINITY;

  metrics: EndpointMetrics = UNKNOWN_METRICS;
  scrapeInterval: number;
  /** Monotonic milliseconds of the next planned scrape; NaN when none is planned. */
  nextScrapeAt = Number.NaN;

  /**
   * @param slot index for typed arrays, from 0 up
   * @param scrapeInterval milliseconds until the collector sets its own interval
   * @param now monotonic milliseconds
   * @param wall wall-clock milliseconds
   */
  constructor(spec: EndpointSpec, slot: number, scrapeInterval: number, now: number, wall: number) {
    this.id = endpointId(spec);
    this.slot = slot;
    this.namespace = spec.namespace;
    this.name = spec.name;
    this.address = spec.address;
    this.port = spec.port;
    this.hostPort = hostPort(spec.address, spec.port);
    this.scheme = spec.scheme;
    this.rank = spec.rank;
    this.labels = spec.labels;
    this.node = spec.node;
    this.nodeAddress = spec.nodeAddress;
    this.metricsHost = metricsHostOf(spec);
    this.models = spec.models?.source === "file" ? spec.models : undefined;
    this.scrapeInterval = scrapeInterval;
    this.since = now;
    this.sinceWall = wall;
  }
}

/** `namespace/name`. */
export function endpointId(spec: { readonly namespace: string; readonly name: string }): string {
  return `${spec.namespace}/${spec.name}`;
}

/** The address of an endpoint's metrics page, given or by default. */
export function metricsHostOf({ address, port, metricsHost }: EndpointSpec): MetricsHost {
  return metricsHost ?? { address, port };
}
