import type { Clock } from "../../base/clock/clock.ts";
import type { SeededRandom } from "../../base/clock/random.ts";
import type { ServerTls } from "../../base/grpc/server-tls.ts";
import type { Parity } from "../../base/inference/parity.ts";
import type { OwnHook } from "../../base/plugin/kinds.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { Tracing } from "../../base/telemetry/tracing.ts";
import type { CadenceOptions } from "../../pool/endpoints/cadence.ts";
import type { EndpointDialects, MetricsPage } from "../../pool/endpoints/scraper.ts";
import type { PeerIdentity } from "../../pool/peers/peers.ts";
import type { PeerTransport } from "../../pool/peers/transport.ts";
import type { ModelOptions } from "../../pool/resources/resolve.ts";
import type { EffectiveConfig } from "../config/effective.ts";
import type { BudgetSettings } from "../exchange/byte-budget.ts";
import type { RequestLog } from "../exchange/request-log.ts";
import type { Quotas } from "../limits/quotas.ts";

/** The settings for decision records and for decisions in answers. */
export interface ExplainSettings {
  /** Answers carry the decision for requests that ask for it; default false. */
  readonly decisionHeader: boolean;
  /** One decision in this many gets a full record, 0 = only those that are asked for; default 256. */
  readonly fullRecordsEvery: number;
}

/** The way to the other replicas of this picker. The core starts the transport and closes it. */
export interface PeerOptions {
  readonly identity: PeerIdentity;
  readonly transport: PeerTransport;
}

export interface CoreOptions extends Partial<ExplainSettings> {
  readonly clock: Clock;
  readonly random: SeededRandom;
  readonly config: EffectiveConfig;
  /** The value of the label `inference_pool`; default "". */
  readonly poolName?: string;
  /** Request hooks that run after those of the configuration. */
  readonly hooks?: readonly OwnHook[];
  /** Objectives and API objects, and their effect. */
  readonly models: ModelOptions;
  /** The scrape interval of endpoints; absent = adaptive from 50 ms to 1 s. */
  readonly cadence?: CadenceOptions;
  /** The dialects of metrics pages; default: those of the built-in engines. */
  readonly dialects?: EndpointDialects;
  /** The address of metrics pages. */
  readonly metricsPage?: MetricsPage;
  /** For pages at the serving ports of endpoints that speak TLS; absent = the settings of the page count. */
  readonly serverTls?: ServerTls | undefined;
  /** Milliseconds after which old metrics no longer show that an endpoint is ready. */
  readonly staleness: number;
  readonly ignoreSubset: boolean;
  /** The wire uses the endpoints of a result in order. */
  readonly retries?: boolean;
  /** `--emit-endpoint-scores`. */
  readonly emitScores?: boolean;
  /** The number of endpoints that a proxy is offered, 1 to 8; absent = the picker decides. */
  readonly maxEndpoints?: number | undefined;
  /** The byte budget: the limits of the bytes of bodies. */
  readonly bodies?: Partial<BudgetSettings> | undefined;
  /** The most bytes of one index of prompts; absent or Infinity = each has its own bound. */
  readonly indexBytes?: number | undefined;
  /** Bytes of one request body; default 32 MiB. */
  readonly maxRequestBytes?: number;
  /** Sluice refuses inference requests without a body. False: any endpoint gets them, as in the reference. */
  readonly refusesEmptyBodies?: boolean;
  /** Request metrics also appear under the names of v0.3 to v1.0; default true. */
  readonly inferenceModelMetrics?: boolean;
  /** Default: Sluice traces nothing. */
  readonly tracing?: Tracing | undefined;
  /** Absent = no limits by key and model. */
  readonly quotas?: Quotas | undefined;
  /** Absent = requests are not logged. */
  readonly requestLog?: RequestLog | undefined;
  /** Whether the process learns the bytes per token from answers; default true. False: 4 bytes count as one token. */
  readonly learnsBytesPerToken?: boolean | undefined;
  /** The release that counts for the fairness ID and for labels; default "" (scheduling 6.10). */
  readonly parity?: Parity | undefined;
  /** Whether producers may prepare, for example ask other servers; default true. */
  readonly prepares?: boolean;
  /** Absent = this process shares nothing. */
  readonly peers?: PeerOptions | undefined;
  readonly log: Logger;
}
