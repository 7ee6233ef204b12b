import type { SluiceError } from "../../base/inference/errors.ts";
import type { MemoryPlan } from "../../base/process/memory-plan.ts";
import type { LoggerOptions } from "../../base/telemetry/logging.ts";
import type { ConfigSource } from "../../picker/core/config-source.ts";
import type { ExplainSettings } from "../../picker/core/core-options.ts";
import type { MetricsFlags } from "../../picker/core/metrics-settings.ts";
import type { BudgetSettings } from "../../picker/exchange/byte-budget.ts";
import type { KubernetesSettings } from "../../pool/controllers/kubernetes-settings.ts";
import type { PeersSettings } from "../../pool/peers/peers-settings.ts";
import type { ResourceSettings } from "../../pool/resources/resource-settings.ts";
import type { WireOptions } from "../../wires/extproc/wire-options.ts";
import type { FlagSetting } from "../common/flag-settings.ts";
import type { TlsSettings } from "./serving-tls.ts";

/** The settings of the Endpoint Picker; times in milliseconds, sizes in bytes. */
export interface EppSettings extends ConfigSource, MetricsFlags {
  /** An IP address. */
  readonly bindAddress: string;
  /** Ports: 0 = any free port. */
  readonly grpcPort: number;
  readonly grpcHealthPort: number;
  readonly metricsPort: number;
  /** Undefined = no external scaler. */
  readonly scalerPort: number | undefined;
  readonly poolName: string;
  readonly endpointsFile: string | undefined;
  /** The error when neither a flag nor the configuration names endpoints. */
  readonly missingEndpoints: SluiceError;
  /** `NAME=PRIORITY` each. */
  readonly objectives: readonly string[];
  /** Undefined = no API objects. */
  readonly resources: ResourceSettings | undefined;
  /** With whom this picker shares what it knows; undefined = with nobody. */
  readonly peers: PeersSettings | undefined;
  /** The source of endpoints when neither a flag nor the configuration names a file; undefined = none. */
  readonly kubernetes: KubernetesSettings | undefined;
  readonly tls: TlsSettings;
  readonly wire: WireOptions;
  /** Sends the score of each candidate in the metadata. */
  readonly emitScores: boolean;
  /** The number of endpoints in an offer to a proxy, 1 to 8; undefined = the number of the picker plugin. */
  readonly maxEndpoints: number | undefined;
  /** Bytes of one request body; a longer body gets a 413. */
  readonly maxRequestBytes: number;
  /** True: answers teach how many bytes of text make a token. False: 4 bytes make a token. */
  readonly learnsBytesPerToken: boolean;
  /** Limits of the bytes of bodies in memory. */
  readonly bodies: BudgetSettings;
  readonly memory: MemoryPlan;
  readonly healthChecking: boolean;
  /** Counts ext_proc streams and measures their duration. */
  readonly streamMetrics: boolean;
  /** Traces requests, if the environment names a destination for traces. */
  readonly tracing: boolean;
  /** Also shows request metrics under their oldest names: `inference_model_...` of v0.3 to v1.0. */
  readonly inferenceModelMetrics: boolean;
  /** Serves profiles on the metrics port. */
  readonly pprof: boolean;
  readonly refreshPrometheusMetricsInterval: number;
  readonly metricsStalenessThreshold: number;
  /** 0 = the default. */
  readonly grpcMaxRecvMsgSize: number;
  /** Limits of the ext_proc port: streams of one connection, and connections. */
  readonly grpcMaxStreams: number;
  readonly grpcMaxTotalStreams: number;
  readonly grpcMaxConnections: number;
  readonly disableEndpointSubsetFilter: boolean;
  readonly drainTimeout: number;
  readonly logging: Pick<LoggerOptions, "level" | "encoder" | "time">;
  readonly debugOpen: boolean;
  /** The address of a Prometheus, for longer spans on the page; undefined = none. */
  readonly prometheus: string | undefined;
  readonly explain: ExplainSettings;
  /** Every flag with its origin, for the page. */
  readonly shown: readonly FlagSetting[];
  /** For the log, which does not exist yet when the flags are read. */
  readonly warnings: readonly string[];
}
