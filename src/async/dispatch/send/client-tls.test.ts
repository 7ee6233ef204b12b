import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TlsOptions } from "node:tls";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { type ClientAuthority, clientAuthority } from "../../../../test/support/certificates.ts";
import { fixedLimit } from "../../../../test/support/slowness.ts";
import { realClock } from "../../../base/clock/real.ts";
import { type ClientTls, readTlsFiles } from "./client-tls.ts";
import type { GatewayAnswer } from "./inference-client.ts";
import { undiciClient } from "./undici-client.ts";

let authority: ClientAuthority;
let stranger: ClientAuthority;
const servers: Server[] = [];
beforeAll(async () => {
  [authority, stranger] = await Promise.all([clientAuthority(), clientAuthority()]);
});
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

/** The answer of a server with its own certificate. @param host as the URL names it */
async function ask(tls: ClientTls, options: TlsOptions = {}, host = "127.0.0.1"): Promise<GatewayAnswer> {
  const server = createServer({ ...authority.server, ...options }, (_request, response) => void response.end("secret"));
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = new URL(`https://${host}:${(server.address() as AddressInfo).port}/v1`);
  const client = undiciClient({ totalWorkers: 1, tls, clock: realClock });
  const request = { url, headers: [], body: Buffer.from("{}"), timeoutMs: fixedLimit(10_000) };
  const answer = await client.send(request, new AbortController().signal);
  await client.close();
  return answer;
}

/** Which of these texts, in files, are refused. */
async function refused(texts: { readonly ca?: string; readonly cert?: string; readonly key?: string }) {
  const folder = mkdtempSync(join(tmpdir(), "sluice-tls-"));
  const path = (which: "ca" | "cert" | "key"): string | undefined => {
    const text = texts[which];
    if (text === undefined) return undefined;
    writeFileSync(join(folder, which), text);
    return join(folder, which);
  };
  const found: string[] = [];
  await readTlsFiles({ ca: path("ca"), cert: path("cert"), key: path("key") }, (which) => found.push(which));
  rmSync(folder, { recursive: true });
  return found;
}

describe("A-81: gateways over TLS", () => {
  it("an authority of our own, for a name and for an address", async () => {
    for (const host of ["localhost", "127.0.0.1"])
      expect(await ask({ ca: authority.ca }, {}, host)).toMatchObject({ kind: "response", status: 200 });
  });

  it("several authorities in one text, with words between them", async () => {
    const ca = `# ours\n${stranger.ca}\n# and\n${authority.ca}`;
    expect((await ask({ ca })).kind).toBe("response");
  });

  it.each<[string, () => ClientTls]>([
    ["the system's authorities alone", () => ({})],
    ["another authority", () => ({ ca: stranger.ca })],
  ])("%s: refused, and nothing was sent", async (_name, tls) => {
    expect(await ask(tls())).toMatchObject({ kind: "no-answer", message: expect.stringContaining("certificate") });
  });

  it("a certificate for another name is refused", async () => {
    const tls = { ca: authority.ca };
    expect(await ask(tls, authority.client)).toMatchObject({ kind: "no-answer" });
  });

  it("insecureSkipVerify takes all of them", async () => {
    expect((await ask({ insecureSkipVerify: true })).kind).toBe("response");
    expect((await ask({ insecureSkipVerify: true }, authority.client)).kind).toBe("response");
    expect((await ask({ ca: stranger.ca, insecureSkipVerify: true })).kind).toBe("response");
  });

  it("a server that wants a certificate gets it; with none or a stranger's there is no answer", async () => {
    const server = { ca: authority.ca, requestCert: true, rejectUnauthorized: true };
    expect((await ask({ ca: authority.ca, ...authority.client }, server)).kind).toBe("response");
    expect((await ask({ ca: authority.ca }, server)).kind).toBe("no-answer");
    expect((await ask({ ca: authority.ca, ...stranger.client }, server)).kind).toBe("no-answer");
  });

  it("TLS 1.1 is too old", async () => {
    const old = { maxVersion: "TLSv1.1", minVersion: "TLSv1", ciphers: "DEFAULT@SECLEVEL=0" } as const;
    expect((await ask({ insecureSkipVerify: true }, old)).kind).toBe("no-answer");
  });
});

describe("A-81: what is refused at start", () => {
  it("half a pair, or one whose halves do not belong together", async () => {
    const { cert, key } = authority.client;
    expect(await refused({ cert })).toEqual(["cert"]);
    expect(await refused({ key })).toEqual(["key"]);
    expect(await refused({ cert, key: stranger.client.key })).toEqual(["key"]);
    expect(await refused({ cert, key })).toEqual([]);
  });

  it("texts that are no PEM", async () => {
    const { cert, key } = authority.client;
    const broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (const ca of ["", "x", broken, authority.ca + broken]) expect(await refused({ ca })).toEqual(["ca"]);
    expect(await refused({ cert: "x", key })).toEqual(["cert"]);
    expect(await refused({ cert, key: "x" })).toEqual(["key"]);
  });
});
