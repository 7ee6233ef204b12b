/** Where the metrics page of an endpoint is fetched (scheduling 1.8); used by `pool/endpoints`. */
export interface DataSource {
  readonly scheme: "http" | "https";
  /** Begins with a slash. */
  readonly path: string;
  /** Undefined = the endpoint's own port. */
  readonly port: number | undefined;
  readonly insecureSkipVerify: boolean;
  /** Files, for `https`; "" = none. */
  readonly caCertPath: string;
  readonly clientCertPath: string;
  readonly clientKeyPath: string;
  /** Milliseconds between two scrapes of an endpoint; undefined = as the flag says. */
  readonly interval: number | undefined;
}

/** How the pages of one kind of engine are read: metric specifications (scheduling 1.4), "" = not collected. */
export interface EngineSpecification {
  readonly name: string;
  readonly queuedRequestsSpec: string;
  readonly runningRequestsSpec: string;
  readonly kvUsageSpec: string;
  readonly loraSpec: string;
  readonly cacheInfoSpec: string;
  readonly cacheBlockSizeLabelName: string;
  readonly cacheNumBlocksLabelName: string;
  readonly cacheBlockSizeSpec: string;
  readonly cacheNumBlocksSpec: string;
}

/** How metrics pages are read (scheduling 1.5). */
export interface Extractor {
  /** Label of an endpoint that names its engine. */
  readonly engineLabelKey: string;
  readonly defaultEngine: string;
  /** In place of built-in ones of the same name. */
  readonly engines: readonly EngineSpecification[];
}
