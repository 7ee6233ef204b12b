import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ApiServerBinaries } from "../../../scripts/test-parts.ts";
import { clientAuthority } from "../certificates.ts";
import { freePort } from "../free-port.ts";
import { InVain } from "../poll.ts";
import { TestProcess } from "../process.ts";
import { Admin, type Send } from "./admin.ts";
import { SocketClient } from "./send.ts";
import type { ApiServerOptions, TestApiServer } from "./server.ts";
import type { PolicyRule, TestUser } from "./users.ts";

const ADMIN = "admin-token";

/**
 * Starts etcd and kube-apiserver in a folder of their own, as envtest does: RBAC, tokens from a file, no controllers, no
 * nodes.
 */
export async function startReal(binaries: ApiServerBinaries, options: ApiServerOptions): Promise<TestApiServer> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-apiserver-"));
  const file = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };
  const authority = await clientAuthority();
  const keys = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
  const [etcdPort, peerPort, port] = [await freePort(), await freePort(), await freePort()];
  const etcdUrl = `http://127.0.0.1:${etcdPort}`;
  const peerUrl = `http://127.0.0.1:${peerPort}`;
  const etcd = new TestProcess(
    binaries.etcd,
    [
      ...["--data-dir", join(folder, "etcd"), "--unsafe-no-fsync"],
      ...["--listen-client-urls", etcdUrl, "--advertise-client-urls", etcdUrl],
      ...["--listen-peer-urls", peerUrl, "--initial-advertise-peer-urls", peerUrl],
      ...["--initial-cluster", `default=${peerUrl}`],
    ],
    { cwd: folder },
  );
  const users = new Map<string, TestUser>([[ADMIN, { name: "admin", groups: ["system:masters"] }]]);
  const args = [
    `--etcd-servers=${etcdUrl}`,
    "--bind-address=127.0.0.1",
    "--advertise-address=127.0.0.1",
    `--secure-port=${port}`,
    `--cert-dir=${folder}`,
    `--tls-cert-file=${file("server.crt", authority.server.cert)}`,
    `--tls-private-key-file=${file("server.key", authority.server.key)}`,
    `--client-ca-file=${file("ca.crt", authority.ca)}`,
    `--token-auth-file=${join(folder, "tokens.csv")}`,
    `--service-account-key-file=${file("accounts.pub", keys.publicKey)}`,
    `--service-account-signing-key-file=${file("accounts.key", keys.privateKey)}`,
    "--service-account-issuer=https://127.0.0.1",
    "--service-cluster-ip-range=10.0.0.0/24",
    "--authorization-mode=RBAC",
    "--disable-admission-plugins=ServiceAccount",
    `--anonymous-auth=${options.anonymous ?? false}`,
  ];
  const url = `https://127.0.0.1:${port}`;
  const client = new SocketClient({ url, token: ADMIN, ca: authority.ca });
  const send: Send = (method, path, body, given) => client.send(method, path, body, given);
  const admin = new Admin(send);
  let server: TestProcess | undefined;
  const up = async (): Promise<void> => {
    const rows = [...users].map(
      ([token, { name, groups = [] }]) => `${token},${name},uid-of-${name},"${groups.join(",")}"\n`,
    );
    file("tokens.csv", rows.join(""));
    const started = new TestProcess(binaries.apiServer, args, { cwd: folder });
    server = started;
    await started.until(
      "kube-apiserver to be ready",
      async () => {
        if (etcd.exit !== undefined) throw new InVain(`etcd ended: ${etcd.stderr.slice(-3000)}`);
        const { status } = await send("GET", "/readyz");
        return status === 200 && (await admin.get("/api/v1/namespaces/default")) !== undefined;
      },
      60_000,
    );
  };
  const down = async (): Promise<void> => {
    await server?.stop("SIGKILL");
  };
  const close = async (): Promise<void> => {
    await client.close();
    await down();
    await etcd.stop("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  };
  for (const [token, user] of Object.entries(options.users ?? {})) users.set(token, user);
  try {
    await up();
    for (const user of Object.values(options.users ?? {})) await grant(admin, user);
  } catch (error) {
    await close();
    throw error;
  }
  const restart = async (): Promise<void> => {
    await down();
    await up();
  };
  return {
    url,
    ca: authority.ca,
    clientCertificate: authority.client,
    token: ADMIN,
    real: true,
    get log(): never {
      throw standInOnly("log");
    },
    get watches(): never {
      throw standInOnly("watches");
    },
    request: send,
    get: (path) => admin.get(path),
    put: (object) => admin.put(object),
    delete: (target) => admin.delete(target),
    installCrds: (crds) => admin.installCrds(crds),
    users: {
      async addUser(token, user) {
        users.set(token, user);
        await restart();
        await grant(admin, user);
      },
      async removeUser(token) {
        users.delete(token);
        await restart();
      },
    },
    expire() {
      throw standInOnly("expire");
    },
    dropWatches() {
      throw standInOnly("dropWatches");
    },
    pause: () => void server?.child.kill("SIGSTOP"),
    resume: () => void server?.child.kill("SIGCONT"),
    down,
    up,
    restart,
    failNext() {
      throw standInOnly("failNext");
    },
    goAway() {
      throw standInOnly("goAway");
    },
    close,
  };
}

function standInOnly(what: string): Error {
  return new Error(`${what} is there on the stand-in only: ask \`real\` before`);
}

/** Gives somebody roles with exactly these rules, one per namespace and one for everywhere. */
async function grant(admin: Admin, { name, rules = [] }: TestUser): Promise<void> {
  const role = `test-${name.replaceAll(/[^a-z0-9-]+/gi, "-").toLowerCase()}`;
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const subjects = [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", name }];
  const places = Map.groupBy<string | undefined, PolicyRule>(rules, ({ namespace }) => namespace);
  for (const [namespace, own] of places) {
    const prefix = namespace === undefined ? "Cluster" : "";
    const metadata = { name: role, ...(namespace === undefined ? {} : { namespace }) };
    const list = own.map(({ namespace: _, ...rule }) => rule);
    await admin.put({ apiVersion, kind: `${prefix}Role`, metadata, rules: list });
    const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: `${prefix}Role`, name: role };
    await admin.put({ apiVersion, kind: `${prefix}RoleBinding`, metadata, subjects, roleRef });
  }
}
