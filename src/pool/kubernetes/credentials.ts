/** How an API server is trusted and what it is shown; PEM texts. */
export interface Credentials {
  /** Whom to trust; undefined = the authorities that Node trusts. */
  readonly ca: string | undefined;
  /** True: no certificate is checked. */
  readonly insecureSkipVerify: boolean;
  /** Name that the server's certificate must have; default: the host of its URL. */
  readonly serverName?: string | undefined;
  /** Client certificate chain; with `key` or not at all. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /**
   * The bearer token as of now, undefined where there is none. The other members are up to date once it has resolved: what
   * rotates is read again by this call.
   * @throws SluiceError when there should be one and it cannot be had
   */
  token(): Promise<string | undefined>;
  /** The server did not accept what it was shown (401): the next `token()` reads it anew. */
  refused?(): void;
}

/** Where an API server is, how to talk to it, and the namespace that counts when none is named. */
export interface ClusterAccess {
  /** URL; may have a path. */
  readonly server: string;
  readonly credentials: Credentials;
  readonly namespace: string;
}
