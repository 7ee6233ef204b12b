import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { kubeconfig } from "./kubeconfig.ts";

const PEM = (what: string) => `-----BEGIN ${what}-----\nAAAA\n-----END ${what}-----\n`;
const base64 = (text: string) => Buffer.from(text).toString("base64");
const WALL = Date.parse("2026-03-01T10:00:00Z");
let folder = "";
let clock = new VirtualClock(WALL);

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-kubeconfig-"));
  clock = new VirtualClock(WALL);
});

afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function file(text: string, name = "config"): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, text);
  return path;
}

/** A kubeconfig with one user, given as the lines below `user:`. */
function config(user: string, cluster = "    insecure-skip-tls-verify: true\n"): string {
  return `apiVersion: v1
kind: Config
current-context: here
contexts:
- name: here
  context: {cluster: c, user: u, namespace: ml}
- name: there
  context: {cluster: missing, user: u}
clusters:
- name: broken
  cluster: {server: 5}
- name: c
  cluster:
    server: https://10.0.0.1:6443
${cluster}users:
- name: u
  user:
${user}`;
}

describe("kubeconfig", () => {
  it("follows the current context to server, namespace, authority, client certificate and token", async () => {
    const path = await file(
      config(
        `    token: abc\n    client-certificate-data: ${base64(PEM("CERTIFICATE"))}\n    client-key-data: ${base64(PEM("PRIVATE KEY"))}\n`,
        `    certificate-authority-data: ${base64(PEM("CERTIFICATE"))}\n    tls-server-name: k8s\n`,
      ),
    );
    const { server, namespace, credentials } = await kubeconfig(path, { clock });
    expect({ server, namespace, ...credentials, token: await credentials.token() }).toEqual({
      server: "https://10.0.0.1:6443",
      namespace: "ml",
      ca: PEM("CERTIFICATE"),
      insecureSkipVerify: false,
      serverName: "k8s",
      cert: PEM("CERTIFICATE"),
      key: PEM("PRIVATE KEY"),
      token: "abc",
    });
  });

  it("reads files beside it, and a token file again when it changes", async () => {
    await mkdir(join(folder, "pki"));
    await file(PEM("CERTIFICATE"), "pki/ca.crt");
    await file(PEM("CERTIFICATE"), "pki/me.crt");
    await file(PEM("EC PRIVATE KEY"), "pki/me.key");
    const token = await file("t1\n", "token");
    const path = await file(
      config(
        `    tokenFile: ${token}\n    client-certificate: pki/me.crt\n    client-key: pki/me.key\n`,
        "    certificate-authority: pki/ca.crt\n",
      ),
    );
    const { credentials } = await kubeconfig(path, { clock });
    expect(credentials).toMatchObject({ ca: PEM("CERTIFICATE"), cert: PEM("CERTIFICATE"), key: PEM("EC PRIVATE KEY") });
    expect(await credentials.token()).toBe("t1");
    await writeFile(token, "t2");
    credentials.refused?.();
    expect(await credentials.token()).toBe("t2");
  });

  it("of several files the first that has a name counts, and missing ones are passed over", async () => {
    const first = await file("contexts: [{name: mine, context: {cluster: c, user: ''}}]\n", "first");
    const second = await file(config("    token: abc\n"), "second");
    const paths = [join(folder, "missing"), first, second].join(delimiter);
    expect(await kubeconfig(paths, { clock })).toMatchObject({ namespace: "ml" });
    const mine = await kubeconfig(paths, { clock, context: "mine" });
    expect([mine.server, mine.namespace, await mine.credentials.token()]).toEqual([
      "https://10.0.0.1:6443",
      "default",
      undefined,
    ]);
    await expect(kubeconfig(join(folder, "missing"), { clock })).rejects.toMatchObject({ code: "DOCUMENT_MISSING" });
  });

  it.each([
    ["no context", "kind: Config\n", "has no current-context; name one of its contexts"],
    [
      "a context that is not there",
      "current-context: her\ncontexts: [{name: here, context: {cluster: c, user: u}}]\n",
      "has no context `her`; did you mean `here`?",
    ],
    [
      "a cluster that is not there",
      "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n",
      "has no cluster `c`, which context `a` refers to",
    ],
    [
      "a wrong kind of value",
      "contexts:\n- name: a\n  context: {cluster: [], user: u}\n",
      ":3:13: contexts[0].context.cluster: expected a string, got a list",
    ],
    [
      "a server that is no URL",
      config("    token: a\n").replace("https://10.0.0.1:6443", "nonsense"),
      "clusters[1].cluster.server: expected a URL such as https://10.0.0.1:6443",
    ],
    [
      "an authority that is no PEM",
      config("    token: a\n", `    certificate-authority-data: ${base64("hello")}\n`),
      "clusters[1].cluster.certificate-authority-data: expected PEM text in base64",
    ],
    [
      "an authority that is not there",
      config("    token: a\n", "    certificate-authority: nowhere.crt\n"),
      /config:15:5: clusters\[1\]\.cluster\.certificate-authority: .*nowhere\.crt does not exist/,
    ],
    [
      "a certificate alone",
      config(`    client-certificate-data: ${base64(PEM("CERTIFICATE"))}\n`),
      "users[0].user.client-key: is missing: certificate and key belong together",
    ],
    [
      "a token that is a number",
      config("    token: 12345\n"),
      "users[0].user.token: expected a string; put it in quotes",
    ],
    [
      "an authentication provider",
      config("    auth-provider: {name: gcp}\n"),
      "users[0].user.auth-provider is not supported: kubectl no longer supports it",
    ],
    ["a password", config("    username: me\n    password: pw\n"), "users[0].user.username is not supported"],
    ["impersonation", config("    token: a\n    as: admin\n"), "users[0].user.as is not supported"],
    [
      "a proxy",
      config("    token: a\n", "    proxy-url: http://proxy\n"),
      "clusters[1].cluster.proxy-url is not supported",
    ],
    [
      "a plugin for people",
      config("    exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Always}\n"),
      "interactiveMode Always needs a person",
    ],
    [
      "a plugin of an old kind",
      config("    exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}\n"),
      "users[0].user.exec.apiVersion: expected one of",
    ],
  ])("names file and key: %s", async (_, text, message) => {
    const path = await file(text);
    const failed = kubeconfig(path, { clock });
    await expect(failed).rejects.toThrow(message);
    await expect(failed).rejects.toThrow(path);
    await expect(failed).rejects.not.toThrow("12345");
  });
});

/** A user with a plugin that runs a shell script beside the kubeconfig. */
async function plugin(script: string, more = ""): Promise<string> {
  await chmod(await file(`#!/bin/sh\necho run >> "$(dirname "$0")/runs"\n${script}\n`, "plugin.sh"), 0o755);
  return file(
    config(
      `    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      command: ./plugin.sh\n      args: [one]\n      env: [{name: FROM, value: config}]\n${more}`,
    ),
  );
}

async function runs(): Promise<number> {
  const { readFile } = await import("node:fs/promises");
  return (await readFile(join(folder, "runs"), "utf8")).split("\n").length - 1;
}

describe("credential plugins", () => {
  it("run with arguments, environment and what they are told, and count until just before they expire or are refused", async () => {
    const path = await plugin(
      `cat <<END\n{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"$1-$FROM-$(echo "$KUBERNETES_EXEC_INFO" | tr -d '\\\\"{}' | tr ',:' '--')","expirationTimestamp":"2026-03-01T10:05:00Z"}}\nEND`,
      "      provideClusterInfo: true\n",
    );
    const { credentials } = await kubeconfig(path, { clock });
    const [token] = await Promise.all([credentials.token(), credentials.token()]);
    expect(token).toBe(
      "one-config-kind-ExecCredential-apiVersion-client.authentication.k8s.io/v1-spec-interactive-false-cluster-server-https-//10.0.0.1-6443-insecure-skip-tls-verify-true",
    );
    expect(await runs()).toBe(1);
    clock.advance(289_999);
    await credentials.token();
    expect(await runs()).toBe(1);
    clock.advance(1);
    await credentials.token();
    expect(await runs()).toBe(2);
  });

  it("may give a client certificate instead, and are run again after a refusal", async () => {
    const status = { clientCertificateData: PEM("CERTIFICATE"), clientKeyData: PEM("PRIVATE KEY") };
    const { credentials } = await kubeconfig(
      await plugin(`cat <<'END'\n${JSON.stringify({ kind: "ExecCredential", status })}\nEND`),
      { clock },
    );
    expect(await credentials.token()).toBeUndefined();
    expect(credentials).toMatchObject({ cert: status.clientCertificateData, key: status.clientKeyData });
    clock.advance(1e9);
    await credentials.token();
    expect(await runs()).toBe(1);
    credentials.refused?.();
    await credentials.token();
    expect(await runs()).toBe(2);
  });

  it.each([
    ["fails", "echo 'log in first' >&2; exit 3", "failed (3): log in first"],
    ["prints no JSON", "echo s3cr3t", "printed no JSON"],
    [
      "prints something else",
      `echo '{"kind":"ExecCredential","status":{"token":{"s3cr3t":1}}}'`,
      "printed no valid ExecCredential: fault at status.token",
    ],
    [
      "prints nothing of use",
      `echo '{"kind":"ExecCredential","status":{}}'`,
      "printed neither a token nor a client certificate",
    ],
    [
      "prints half a pair",
      `echo '{"kind":"ExecCredential","status":{"clientKeyData":"s3cr3t"}}'`,
      "without its certificate",
    ],
  ])("that %s are told of without what they printed", async (_, script, message) => {
    const { credentials } = await kubeconfig(await plugin(script), { clock });
    const failed = credentials.token();
    await expect(failed).rejects.toMatchObject({
      code: "CREDENTIAL_PLUGIN",
      message: expect.stringContaining(message),
    });
    await expect(failed).rejects.not.toThrow("s3cr3t");
    await expect(credentials.token()).rejects.toThrow(message);
  });

  it("that are not installed are told of with the hint", async () => {
    const path = await file(
      config(
        "    exec:\n      apiVersion: client.authentication.k8s.io/v1beta1\n      command: sluice-no-such-plugin\n      installHint: get it from example.com\n",
      ),
    );
    const { credentials } = await kubeconfig(path, { clock });
    await expect(credentials.token()).rejects.toThrow(
      "`sluice-no-such-plugin` is not installed: get it from example.com",
    );
  });

  it("that hang are ended after a minute", async () => {
    const { credentials } = await kubeconfig(await plugin("sleep 25 &\nexec sleep 600"), { clock });
    const failed = expect(credentials.token()).rejects.toThrow("was ended by SIGKILL");
    clock.advance(60_000);
    await failed;
  });
});
