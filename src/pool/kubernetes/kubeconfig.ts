import { delimiter, dirname, isAbsolute, resolve } from "node:path";
import { z } from "zod";
import type { Clock } from "../../base/clock/clock.ts";
import { type Document, formatPath, type Path } from "../../base/document/document.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import { readDocument, readText } from "../../base/document/read.ts";
import { check, invalid, type Violation, validate } from "../../base/document/validate.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { type ClusterAccess, type Credentials, RereadFile } from "./credentials.ts";
import { ExecCredentials } from "./exec-credentials.ts";

const WHAT = "kubeconfig";
const MAX_BYTES = 4 * 1024 * 1024;

interface KubeconfigOptions {
  /** Name of a context; default `current-context`. */
  readonly context?: string | undefined;
  readonly clock: Clock;
}

/** An entry of one of the lists, with its position. */
interface Found<T> {
  readonly document: Document;
  readonly path: Path;
  readonly value: T;
}

interface File {
  readonly document: Document;
  readonly content: z.output<typeof KUBECONFIG>;
}

/**
 * How kubectl talks to a cluster (ADR 0013). When several files have a name, the first counts, as in the variable KUBECONFIG.
 * @param path one path, or several with colons between them (semicolons on Windows); of several, missing ones are skipped
 * @throws SluiceError KUBECONFIG_CONTEXT, KUBECONFIG_UNSUPPORTED, and as `readDocument` and `validate`
 */
export async function kubeconfig(path: string, { context, clock }: KubeconfigOptions): Promise<ClusterAccess> {
  const files = await readFiles(path);
  const current = files.map(({ content }) => content["current-context"]).find((name) => name);
  const name = context ?? current ?? undefined;
  if (name === undefined || name === "")
    throw new SluiceError("KUBECONFIG_CONTEXT", `${path} has no current-context; name one of its contexts`);
  const chosen = find(files, "contexts", name, undefined, path).value.context;
  const cluster = find(files, "clusters", chosen.cluster, name, path);
  const settings = part(cluster, "cluster", CLUSTER);
  const user = chosen.user === "" ? undefined : find(files, "users", chosen.user, name, path);
  const credentials = await credentialsOf(settings, user && part(user, "user", USER), clock);
  try {
    new URL(settings.value.server);
  } catch {
    throw wrong(settings, "server", "expected a URL such as https://10.0.0.1:6443");
  }
  return { server: settings.value.server, credentials, namespace: chosen.namespace || "default" };
}

async function readFiles(path: string): Promise<File[]> {
  const paths = path.split(delimiter).filter((each) => each !== "");
  const files: File[] = [];
  let missing: unknown;
  for (const each of paths) {
    try {
      const document = await readDocument(each, { maxBytes: MAX_BYTES });
      files.push({ document, content: document.value === null ? {} : validate(document, KUBECONFIG, { what: WHAT }) });
    } catch (error) {
      if (!(error instanceof SluiceError) || error.code !== "DOCUMENT_MISSING") throw error;
      missing ??= error;
    }
  }
  if (files.length === 0) throw missing ?? new SluiceError("KUBECONFIG_CONTEXT", "no kubeconfig file is named");
  return files;
}

type Section = "contexts" | "clusters" | "users";
type Entry<S extends Section> = NonNullable<File["content"][S]>[number];

function find<S extends Section>(
  files: readonly File[],
  section: S,
  name: string,
  context: string | undefined,
  path: string,
) {
  const names: string[] = [];
  for (const { document, content } of files)
    for (const [index, entry] of (content[section] ?? []).entries()) {
      if (entry.name === name) return { document, path: [section, index], value: entry as Entry<S> };
      names.push(entry.name);
    }
  const asked = context === undefined ? "" : `, which context \`${context}\` refers to`;
  throw new SluiceError(
    "KUBECONFIG_CONTEXT",
    `${path} has no ${section.slice(0, -1)} \`${name}\`${asked}${didYouMean(name, names)}`,
  );
}

/** The value of an entry's only member. Only entries in use are checked, so a broken user of another cluster does no harm. */
function part<S extends z.ZodType>(entry: Found<object>, member: string, schema: S): Found<z.output<S>> {
  const path = [...entry.path, member];
  const violations: Violation[] = [];
  const value = check((entry.value as Record<string, unknown>)[member] ?? {}, schema, path, violations);
  if (value === undefined) throw invalid(entry.document, violations, WHAT);
  return { document: entry.document, path, value: value.output };
}

type Cluster = Found<z.output<typeof CLUSTER>>;
type User = Found<z.output<typeof USER>>;

async function credentialsOf(cluster: Cluster, user: User | undefined, clock: Clock): Promise<Credentials> {
  if (cluster.value["proxy-url"]) throw unsupported(cluster, "proxy-url", "Sluice does not connect through a proxy");
  const trust = {
    ca: await pem(cluster, "certificate-authority"),
    insecureSkipVerify: cluster.value["insecure-skip-tls-verify"] ?? false,
    serverName: cluster.value["tls-server-name"],
  };
  if (user === undefined) return { ...trust, token: () => Promise.resolve(undefined) };
  refuse(user);
  const { token, tokenFile, exec } = user.value;
  const cert = await pem(user, "client-certificate");
  const key = await pem(user, "client-key");
  if ((cert === undefined) !== (key === undefined))
    throw wrong(
      user,
      cert === undefined ? "client-certificate" : "client-key",
      "is missing: certificate and key belong together",
    );
  const shown = { ...trust, cert, key };
  if (typeof tokenFile === "string" && tokenFile !== "") {
    const file = new RereadFile(beside(user.document, tokenFile), clock);
    return { ...shown, token: () => file.text(), refused: () => file.expire() };
  }
  if (token !== undefined && token !== null && token !== "") {
    if (typeof token !== "string") throw wrong(user, "token", "expected a string; put it in quotes");
    return { ...shown, token: () => Promise.resolve(token) };
  }
  if (exec === undefined) return { ...shown, token: () => Promise.resolve(undefined) };
  return new PluginCredentials(trust, plugin(cluster, user, exec), clock);
}

/** Ways to authenticate that Sluice does not support. To ignore them would mean to log in as another user. */
function refuse(user: User): void {
  const { "auth-provider": provider, username, as, exec } = user.value;
  if (provider)
    throw unsupported(user, "auth-provider", "kubectl no longer supports it; use exec with a credential plugin");
  if (username)
    throw unsupported(user, "username", "API servers no longer accept passwords; use a token or a certificate");
  if (as) throw unsupported(user, "as", "Sluice does not impersonate users; use a user that has the rights");
  if (exec?.interactiveMode === "Always")
    throw unsupported(user, "exec", "interactiveMode Always needs a person at a terminal; use Never or IfAvailable");
}

function plugin(cluster: Cluster, user: User, exec: NonNullable<User["value"]["exec"]>) {
  const { command, args, env, apiVersion, installHint = "", provideClusterInfo } = exec;
  const { server, "tls-server-name": name, "insecure-skip-tls-verify": insecure, ...rest } = cluster.value;
  const info = {
    server,
    "tls-server-name": name,
    "insecure-skip-tls-verify": insecure,
    "certificate-authority-data": rest["certificate-authority-data"],
  };
  return {
    // A bare name is looked up on the PATH, any other path beside the file that names it.
    command: /[/\\]/.test(command) ? beside(user.document, command) : command,
    args: args ?? [],
    env: Object.fromEntries((env ?? []).map(({ name: variable, value }) => [variable, value])),
    apiVersion,
    installHint,
    cluster: provideClusterInfo ? info : undefined,
  };
}

/** The credentials of a plugin, with the trust of the cluster. */
class PluginCredentials implements Credentials {
  readonly ca: string | undefined;
  readonly insecureSkipVerify: boolean;
  readonly serverName: string | undefined;
  readonly #plugin: ExecCredentials;

  constructor(
    { ca, insecureSkipVerify, serverName }: Pick<Credentials, "ca" | "insecureSkipVerify" | "serverName">,
    command: ConstructorParameters<typeof ExecCredentials>[0],
    clock: Clock,
  ) {
    this.ca = ca;
    this.insecureSkipVerify = insecureSkipVerify;
    this.serverName = serverName;
    this.#plugin = new ExecCredentials(command, clock);
  }

  get cert(): string | undefined {
    return this.#plugin.last?.cert;
  }

  get key(): string | undefined {
    return this.#plugin.last?.key;
  }

  async token(): Promise<string | undefined> {
    return (await this.#plugin.credential()).token;
  }

  refused(): void {
    this.#plugin.expire();
  }
}

/** A PEM text given as a path in `member`, or in base64 in `member-data`, which wins when both are given. */
async function pem(at: Found<Record<string, unknown>>, member: string): Promise<string | undefined> {
  const data = at.value[`${member}-data`];
  const path = at.value[member];
  if (data !== undefined && data !== null && data !== "") {
    const decoded = typeof data === "string" ? Buffer.from(data, "base64").toString("utf8") : "";
    if (!decoded.includes("-----BEGIN ")) throw wrong(at, `${member}-data`, "expected PEM text in base64");
    return decoded;
  }
  if (typeof path !== "string" || path === "") return undefined;
  let read: string;
  try {
    read = await readText(beside(at.document, path), { maxBytes: MAX_BYTES });
  } catch (error) {
    throw wrong(at, member, messageOf(error));
  }
  if (!read.includes("-----BEGIN ")) throw wrong(at, member, `${path} holds no PEM text`);
  return read;
}

/** Paths in a kubeconfig start from its folder. */
function beside({ file }: Document, path: string): string {
  return isAbsolute(path) ? path : resolve(dirname(file), path);
}

function wrong({ document, path }: Found<unknown>, member: string, problem: string): SluiceError {
  return invalid(document, [{ path: [...path, member], problem }], WHAT);
}

function unsupported({ document, path }: Found<unknown>, member: string, why: string): SluiceError {
  const key = formatPath([...path, member]);
  return new SluiceError("KUBECONFIG_UNSUPPORTED", `${document.file}: ${key} is not supported: ${why}`);
}

const text = z.string();

/** The parts of a kubeconfig that are read; other keys are for other programs. Missing sections are empty. */
const NAMED = { name: text.min(1) };

const CLUSTER = z.object({
  server: text.min(1),
  "certificate-authority": text.optional(),
  "certificate-authority-data": text.optional(),
  "insecure-skip-tls-verify": z.boolean().optional(),
  "tls-server-name": text.optional(),
  "proxy-url": text.optional(),
});

const EXEC = z.object({
  apiVersion: z.enum(["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"]),
  command: text.min(1),
  args: z.array(text).nullish(),
  env: z.array(z.object({ name: text.min(1), value: text })).nullish(),
  installHint: text.optional(),
  provideClusterInfo: z.boolean().optional(),
  interactiveMode: z.enum(["Never", "IfAvailable", "Always"]).optional(),
});

const USER = z.object({
  // Of secrets only their presence is checked, because a message about a violation would quote the secret.
  token: z.unknown().optional(),
  tokenFile: text.optional(),
  "client-certificate": text.optional(),
  "client-certificate-data": text.optional(),
  "client-key": text.optional(),
  "client-key-data": z.unknown().optional(),
  username: z.unknown().optional(),
  password: z.unknown().optional(),
  as: z.unknown().optional(),
  "auth-provider": z.unknown().optional(),
  exec: EXEC.optional(),
});

const CONTEXT = z.object({ cluster: text.min(1), user: text, namespace: text.optional() });

const KUBECONFIG = z.object({
  "current-context": text.nullish(),
  contexts: z.array(z.object({ ...NAMED, context: CONTEXT })).nullish(),
  clusters: z.array(z.object({ ...NAMED, cluster: z.unknown() })).nullish(),
  users: z.array(z.object({ ...NAMED, user: z.unknown() })).nullish(),
});
