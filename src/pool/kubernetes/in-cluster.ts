import { join } from "node:path";
import type { Clock } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { ClusterAccess, Credentials } from "./credentials.ts";
import { RereadFile } from "./reread-file.ts";

/** Where the kubelet puts a pod's service account. */
const FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * How a pod talks to the API server of its own cluster; undefined outside of one.
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

/** What a pod shows: both files are replaced while it runs. */
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
