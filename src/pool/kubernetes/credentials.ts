import { join } from "node:path";
import type { Clock } from "../../base/clock/clock.ts";
import { readText } from "../../base/document/read.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";

/** How an API server is trusted, and the credentials for it; PEM texts. */
export interface Credentials {
  /** The trusted authorities; undefined = those that Node trusts. */
  readonly ca: string | undefined;
  /** True: no certificate is checked. */
  readonly insecureSkipVerify: boolean;
  /** Name that the server's certificate must have; default: the host of its URL. */
  readonly serverName?: string | undefined;
  /** Client certificate chain; with `key` or not at all. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /**
   * The bearer token as of now, undefined where there is none. This call reads rotated files again, so the other members are up
   * to date once it has resolved.
   * @throws SluiceError when a token is configured and cannot be read
   */
  token(): Promise<string | undefined>;
  /** The server refused the credentials (401): the next `token()` reads them again. */
  refused?(): void;
}

/** The address of an API server, how to talk to it, and the default namespace. */
export interface ClusterAccess {
  /** URL; may have a path. */
  readonly server: string;
  readonly credentials: Credentials;
  readonly namespace: string;
}

/** The folder in which the kubelet puts a pod's service account. */
const FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * How a pod talks to the API server of its own cluster; undefined outside of a cluster.
 * @param env `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`
 * @param folder with `token`, `ca.crt` and `namespace`; token and authorities are read again as they rotate
 * @throws SluiceError IN_CLUSTER_ACCOUNT when the service account is missing or unreadable
 */
export async function inCluster(
  env: Readonly<Record<string, string | undefined>>,
  clock: Clock,
  folder = FOLDER,
): Promise<ClusterAccess | undefined> {
  const host = env["KUBERNETES_SERVICE_HOST"] ?? "";
  const port = env["KUBERNETES_SERVICE_PORT"] ?? "";
  if (host === "" || port === "") return undefined;
  const credentials = new ServiceAccount(folder, clock);
  try {
    await credentials.token();
    const namespace = await new RereadFile(join(folder, "namespace"), clock).text();
    return { server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`, credentials, namespace };
  } catch (cause) {
    throw new SluiceError(
      "IN_CLUSTER_ACCOUNT",
      `this pod has no usable service account: ${messageOf(cause)}; set automountServiceAccountToken: true in its spec`,
      { cause },
    );
  }
}

/** The credentials of a pod: both files are replaced while it runs. */
class ServiceAccount implements Credentials {
  readonly insecureSkipVerify = false;
  readonly #token: RereadFile;
  readonly #ca: RereadFile;

  constructor(folder: string, clock: Clock) {
    this.#token = new RereadFile(join(folder, "token"), clock);
    this.#ca = new RereadFile(join(folder, "ca.crt"), clock);
  }

  get ca(): string | undefined {
    return this.#ca.last;
  }

  async token(): Promise<string> {
    const [token] = await Promise.all([this.#token.text(), this.#ca.text()]);
    return token;
  }

  refused(): void {
    this.#token.expire();
  }
}

/** Milliseconds for which file contents count: projected tokens are replaced long before they expire. */
const READ_EVERY = 10_000;
const MAX_BYTES = 1024 * 1024;

/**
 * A small text file that is replaced from time to time, such as a service account's token. It is read on request, at most every
 * 10 s. While it cannot be read, the last content counts.
 */
export class RereadFile {
  readonly path: string;
  readonly #clock: Clock;
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<string> | undefined;
  #text: string | undefined;

  constructor(path: string, clock: Clock) {
    this.path = path;
    this.#clock = clock;
  }

  /** The last content, without white space at the ends; undefined before the first read. */
  get last(): string | undefined {
    return this.#text;
  }

  /** @throws SluiceError as `readText`, when the file has never been readable */
  text(): Promise<string> {
    if (this.#text !== undefined && this.#clock.now() - this.#readAt < READ_EVERY) return Promise.resolve(this.#text);
    this.#reading ??= this.#read();
    return this.#reading;
  }

  /** The next call of `text` reads. */
  expire(): void {
    this.#readAt = Number.NEGATIVE_INFINITY;
  }

  async #read(): Promise<string> {
    this.#readAt = this.#clock.now();
    try {
      this.#text = (await readText(this.path, { maxBytes: MAX_BYTES })).trim();
    } catch (error) {
      if (this.#text === undefined) throw error;
    } finally {
      this.#reading = undefined;
    }
    return this.#text;
  }
}
