/** An EndpointPickerConfig as a file has it, as far as it decides. */
export interface SlowConfig {
  readonly plugins: readonly { readonly type: string; readonly name?: string; readonly parameters?: SlowParameters }[];
  readonly schedulingProfiles?: readonly {
    readonly name: string;
    readonly plugins: readonly { readonly pluginRef: string; readonly weight?: number | undefined }[];
  }[];
}

type Of<T> = { readonly [K in keyof T]?: T[K] | undefined };

/** The parameters of all plugins there are in the slow scheduler (scheduling 3.7-3.16, 5.3). */
export type SlowParameters = Of<{
  // Prefixes and loads.
  autoTune: boolean;
  blockSizeTokens: number;
  blockSize: number;
  maxPrefixTokensToMatch: number;
  maxPrefixBlocksToMatch: number;
  lruCapacityPerServer: number;
  prefixMatchInfoProducerName: string;
  addEstimatedOutputTokens: boolean;
  outputRatio: number;
  maxEstimatedOutputTokens: number;
  inFlightLoadProducerName: string;
  // Scorers.
  matchLengthWeight: number;
  matchLengthScaleTokens: number;
  threshold: number;
  idleThreshold: number;
  maxBusyScore: number;
  queueThresholdTokens: number;
  lruSize: number;
  enableFiltering: boolean;
  headerName: string;
  labelKey: string;
  values: readonly (number | null)[];
  // Sessions.
  strategy: string;
  profileName: string;
  encodedEndpointHeaderConfig: { readonly header?: string };
  sessionIdConfig: { readonly sources?: readonly { readonly header: string }[] };
  // Filters, admitters and screeners.
  label: string;
  value: string;
  validValues: readonly string[];
  allowsNoLabel: boolean;
  matchLabels: Readonly<Record<string, string>>;
  matchExpressions: readonly { readonly key: string; readonly operator: string; readonly values?: readonly string[] }[];
  queueDepthThreshold: number;
  kvCacheUtilThreshold: number;
  meanLoadFactor: number;
  minRequests: number;
  metricsStalenessThreshold: string;
  headroom: number;
  maxConcurrency: number;
  maxTokenConcurrency: number;
  concurrencyMode: string;
  conditions: readonly { readonly metric: string; readonly maxValue: number }[];
  fallbackOnEmpty: boolean;
  affinityThreshold: number;
  explorationProbability: number;
  maxTTFTPenaltyMs: number;
  peakPrefillThroughput: number;
  power: number;
  k: number;
  // Profile handlers.
  defaultProfile: string;
  stages: readonly (readonly string[])[];
  primary: string;
}>;
