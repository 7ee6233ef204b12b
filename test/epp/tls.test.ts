import { X509Certificate } from "node:crypto";
import { mkdirSync, mkdtempSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConnectionOptions, connect } from "node:tls";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { realClock } from "../../src/base/clock/real.ts";
import { selfSignedPair } from "../../src/base/grpc/self-signed.ts";
import type { TlsPair } from "../../src/base/grpc/tls.ts";
import { clientAuthority } from "../support/certificates.ts";
import { type BareEpp, ExtProcClient, exchange, finish, health, route, startBareEpp } from "../support/epp-process.ts";
import { freePort, onFreePorts } from "../support/free-port.ts";
import { poll } from "../support/poll.ts";
import { sluice } from "../support/process.ts";
import { endpointsFile, portOf, type Sim, startSims } from "../support/stack.ts";

let sims: Sim[];
let endpoints: string;
beforeAll(async () => {
  sims = await startSims(1);
  endpoints = endpointsFile(sims.map((sim) => sim.port));
});
afterAll(() => Promise.all((sims ?? []).map((sim) => sim.process.stop())));

/** A directory as Kubernetes mounts a secret: the files are links into `..data`, itself a link that is swapped. */
function mountedSecret(pair: TlsPair): { directory: string; swap(next: { cert: string; key: string }): void } {
  const directory = mkdtempSync(join(tmpdir(), "sluice-secret-"));
  let generation = 0;
  const swap = (next: { cert: string; key: string }): void => {
    const name = `..generation-${++generation}`;
    mkdirSync(join(directory, name));
    writeFileSync(join(directory, name, "tls.crt"), next.cert);
    writeFileSync(join(directory, name, "tls.key"), next.key);
    symlinkSync(name, join(directory, "..data_tmp"));
    renameSync(join(directory, "..data_tmp"), join(directory, "..data"));
  };
  swap(pair);
  for (const file of ["tls.crt", "tls.key"]) symlinkSync(join("..data", file), join(directory, file));
  return { directory, swap };
}

/** The serial number of the certificate that a new connection is shown, or why there is none. */
function shown(port: number, more: ConnectionOptions = {}): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false, ALPNProtocols: ["h2"], ...more });
    socket.on("error", (error) => resolve(error.message));
    socket.on("secureConnect", () => {
      resolve(socket.getPeerX509Certificate()!.serialNumber);
      socket.destroy();
    });
  });
}

const serialOf = ({ cert }: TlsPair): string => new X509Certificate(cert).serialNumber;

describe("sluice epp --scaler-cert-dir", () => {
  it("shows new connections of the scaler's port a renewed certificate", async () => {
    const [first, second] = await Promise.all([selfSignedPair(realClock), selfSignedPair(realClock)]);
    const { directory, swap } = mountedSecret(first);
    const epp = await onFreePorts(async () => {
      const port = String(await freePort());
      return startBareEpp(endpoints, ["--scaler-port", port, "--scaler-cert-dir", directory]);
    });
    const port = portOf(await epp.process.listening("scaler"));
    expect(await shown(port)).toBe(serialOf(first));
    swap(second);
    await poll("the renewed certificate", async () => (await shown(port)) === serialOf(second));
    await epp.process.stop();
  });
});

describe("sluice epp --cert-path --enable-cert-reload", () => {
  it("shows new connections a renewed certificate, keeps the old one when the new is broken, and drops no stream (E-126, D-30)", async () => {
    const [first, second, third] = await Promise.all([1, 2, 3].map(() => selfSignedPair(realClock)));
    const { directory, swap } = mountedSecret(first!);
    const epp = await startBareEpp(endpoints, ["--cert-path", directory, "--enable-cert-reload"]);
    expect(await shown(epp.port)).toBe(serialOf(first!));
    const client = await ExtProcClient.connect(epp.port, { tls: true });
    const running = client.open();
    await route(running);

    swap(second!);
    await poll("the renewed certificate", async () => (await shown(epp.port)) === serialOf(second!));
    await finish(running);

    swap({ cert: third!.cert, key: second!.key });
    await poll("the complaint", () => epp.process.stderr.includes("the old certificate stays in use"));
    expect(await shown(epp.port)).toBe(serialOf(second!));

    swap(third!);
    await poll("the certificate put right", async () => (await shown(epp.port)) === serialOf(third!));
    // The connection made under the first certificate still serves.
    await exchange(client);
    expect(client.grpc.goaways).toBe(0);
    client.close();
    await epp.process.stop();
  });

  it("does not follow the files unless told to", async () => {
    const [first, second] = await Promise.all([1, 2].map(() => selfSignedPair(realClock)));
    const followed = mountedSecret(first!);
    const left = mountedSecret(first!);
    const args = ["--metrics-cert-dir", followed.directory, "--cert-path", left.directory];
    const epp = await startBareEpp(endpoints, args);
    left.swap(second!);
    followed.swap(second!);
    const admin = portOf(epp.adminUrl);
    await poll("the renewal of the metrics port", async () => (await shown(admin, HTTP1)) === serialOf(second!));
    expect(await shown(epp.port)).toBe(serialOf(first!));
    await epp.process.stop();
  });
});

const HTTP1 = { ALPNProtocols: ["http/1.1"] };

describe("sluice epp --tls-min-version --tls-cipher-suites", () => {
  let epp: BareEpp;
  const args = ["--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"];
  afterAll(() => epp?.process.stop());

  it("speaks TLS 1.2 with those suites only, TLS 1.3 as ever, and health without any (E-131)", async () => {
    epp = await startBareEpp(endpoints, args);
    const old = { maxVersion: "TLSv1.2" } as const;
    expect(await shown(epp.port, { ...old, ciphers: "ECDHE-ECDSA-AES256-GCM-SHA384" })).toMatch(/^[0-9A-F]+$/);
    expect(await shown(epp.port, { ...old, ciphers: "ECDHE-ECDSA-AES128-GCM-SHA256" })).toMatch(/handshake failure/);
    expect(await shown(epp.port, { minVersion: "TLSv1.3" })).toMatch(/^[0-9A-F]+$/);
    expect(await health(epp.healthPort, "readiness")).toEqual({ serving: 1, grpc: 0 });
    await epp.process.stop();
  });

  it("refuses what is older than the lowest version", async () => {
    epp = await startBareEpp(endpoints, ["--tls-min-version", "VersionTLS13"]);
    expect(await shown(epp.port, { maxVersion: "TLSv1.2" })).toMatch(/alert protocol version/);
    expect(await shown(epp.port)).toMatch(/^[0-9A-F]+$/);
  });
});

describe("sluice epp --client-ca", () => {
  /** Whether the ext_proc port speaks HTTP/2 to a client with that certificate, or with none. */
  const admitted = (port: number, pair: ConnectionOptions = {}): Promise<boolean> =>
    new Promise((resolve) => {
      const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false, ALPNProtocols: ["h2"], ...pair });
      socket.on("error", () => {});
      socket.on("close", () => resolve(false));
      socket.on("data", () => {
        resolve(true);
        socket.destroy();
      });
    });

  it("serves proxies that its authorities have signed, says who was refused, and follows the file", async () => {
    const [first, second] = await Promise.all([clientAuthority(), clientAuthority()]);
    const folder = mkdtempSync(join(tmpdir(), "sluice-client-ca-"));
    const file = join(folder, "proxies.pem");
    const put = (text: string): void => {
      writeFileSync(`${file}.new`, text);
      renameSync(`${file}.new`, file);
    };
    put(first.ca);
    const epp = await startBareEpp(endpoints, ["--client-ca", file]);
    const proxy = await ExtProcClient.connect(epp.port, { tls: true, ...first.client });
    expect(await exchange(proxy)).toBe(`127.0.0.1:${sims[0]!.port}`);
    expect(await admitted(epp.port)).toBe(false);
    expect(await admitted(epp.port, second.client)).toBe(false);
    await epp.process.until("the complaints", () =>
      ["the client sent no certificate", "its certificate is not accepted: UNABLE_TO_VERIFY_LEAF_SIGNATURE"].every(
        (text) => epp.process.stderr.includes(`a client of the ext_proc port was refused: ${text}`),
      ),
    );
    expect(epp.process.stderr).toContain('"address":"127.0.0.1"');
    const page = await (await fetch(`${epp.adminUrl}/metrics`)).text();
    expect(page).toContain('sluice_extproc_refused_total{kind="certificate"} 2');

    put("nothing of use");
    await epp.process.until("the complaint", () =>
      epp.process.stderr.includes("client authorities: the new authorities cannot be used; the old ones stay in use"),
    );
    expect(await admitted(epp.port, first.client)).toBe(true);
    put(second.ca);
    await poll("the other authority", () => admitted(epp.port, second.client));
    expect(await admitted(epp.port, first.client)).toBe(false);
    // The connection made under the first authority still serves, and health is asked without a certificate.
    expect(await exchange(proxy)).toBe(`127.0.0.1:${sims[0]!.port}`);
    expect(await health(epp.healthPort, "readiness")).toEqual({ serving: 1, grpc: 0 });
    proxy.close();
    await epp.process.stop();
  });

  it.each([
    ["a file that is not there", (folder: string) => join(folder, "none.pem"), /cannot read .*none\.pem/],
    [
      "a file without a certificate",
      (folder: string) => join(folder, "empty.pem"),
      /empty\.pem holds no PEM certificate/,
    ],
  ])("ends at start with %s", async (_what, fileOf, said) => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-client-ca-"));
    writeFileSync(join(folder, "empty.pem"), "");
    const args = [
      "epp",
      "--endpoints",
      endpoints,
      "--grpc-port",
      "0",
      "--grpc-health-port",
      "0",
      "--metrics-port",
      "0",
    ];
    const epp = sluice(...args, "--client-ca", fileOf(folder));
    expect((await epp.ended()).code).not.toBe(0);
    expect(epp.stderr).toMatch(said);
  });
});

describe("sluice epp --metrics-cert-dir --metrics-client-ca-file", () => {
  it("shows metrics and debug pages to clients with a certificate, and nothing to others", async () => {
    const { ca, client } = await clientAuthority();
    const caFile = join(mkdtempSync(join(tmpdir(), "sluice-ca-")), "ca.pem");
    writeFileSync(caFile, ca);
    const { directory } = mountedSecret(await selfSignedPair(realClock));
    const args = ["--metrics-cert-dir", directory, "--metrics-client-ca-file", caFile];
    const epp = await startBareEpp(endpoints, args);
    const ask = (path: string, more: object): Promise<number | string> =>
      new Promise((resolve) => {
        const options = {
          host: "127.0.0.1",
          port: portOf(epp.adminUrl),
          path,
          rejectUnauthorized: false,
          agent: false,
        };
        const asking = request({ ...options, ...more }, (answer) => {
          answer.resume();
          resolve(answer.statusCode!);
        });
        asking.on("error", (error) => resolve(error.message));
        asking.end();
      });
    for (const path of ["/metrics", "/debug/endpoints"]) {
      expect(await ask(path, client)).toBe(200);
      expect(await ask(path, {})).toMatch(/certificate required|ECONNRESET|EPIPE|socket hang up/);
    }
    await epp.process.stop();
  });
});
