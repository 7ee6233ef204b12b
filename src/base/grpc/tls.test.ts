import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import tls from "node:tls";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createHttp2Server } from "../../../test/support/grpc/node-http2.ts";
import { GrpcClient } from "../../../test/support/grpc-client.ts";
import { realClock } from "../clock/real.ts";
import { VirtualClock } from "../clock/virtual.ts";
import { healthHandlers, ProcessorHealth } from "./health.ts";
import { selfSignedPair } from "./self-signed.ts";
import { loadCertificates, loadTlsPair, type TlsPair } from "./tls.ts";

const NOW = Date.UTC(2026, 1, 3, 4, 5, 6);

let directory: string;
let pair: TlsPair;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "sluice-tls-"));
  pair = await selfSignedPair(new VirtualClock(NOW));
});

afterAll(() => rmSync(directory, { recursive: true }));

describe("serving TLS (E-01)", () => {
  async function withServer(body: (port: number) => Promise<void>): Promise<void> {
    const handlers = healthHandlers(new ProcessorHealth());
    const server = createHttp2Server({ host: "127.0.0.1", port: 0, handlers, tls: pair }, realClock);
    const { port } = await server.listen();
    try {
      await body(port);
    } finally {
      server.close();
    }
  }

  it("answers over ALPN h2", async () => {
    await withServer(async (port) => {
      const client = await GrpcClient.connect(port, { tls: true });
      expect((await client.unary("/grpc.health.v1.Health/Check", Buffer.alloc(0))).reply).toEqual(Buffer.of(8, 1));
      client.close();
    });
  });

  it.each([
    ["http/1.1 only", ["http/1.1"]],
    ["no protocol at all", []],
  ])("drops a client that offers %s, and serves the next", async (_what, alpn) => {
    await withServer(async (port) => {
      const socket = tls.connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: alpn });
      await new Promise<void>((resolve) => {
        socket.on("error", () => {});
        socket.on("close", () => resolve());
        socket.resume();
      });
      const client = await GrpcClient.connect(port, { tls: true });
      expect((await client.unary("/grpc.health.v1.Health/Check", Buffer.alloc(0))).end.status).toBe(0);
      client.close();
    });
  });
});

describe("loading a pair from a directory", () => {
  function files(cert: string | undefined, key: string | undefined): string {
    const place = mkdtempSync(join(directory, "pair-"));
    if (cert !== undefined) writeFileSync(join(place, "tls.crt"), cert);
    if (key !== undefined) writeFileSync(join(place, "tls.key"), key);
    return place;
  }

  it("reads tls.crt and tls.key", () => {
    expect(loadTlsPair(files(pair.cert, pair.key))).toEqual(pair);
  });

  it("names the file that is missing or broken, and a key of another certificate", async () => {
    const other = await selfSignedPair(new VirtualClock(NOW));
    const cases: [string, string, string][] = [
      [files(undefined, pair.key), "TLS_FILE_UNREADABLE", "tls.crt"],
      [files(pair.cert, undefined), "TLS_FILE_UNREADABLE", "tls.key"],
      [files("garbage", pair.key), "TLS_FILE_INVALID", "tls.crt"],
      [files(pair.cert, "garbage"), "TLS_FILE_INVALID", "tls.key"],
      [files(pair.cert, other.key), "TLS_PAIR_MISMATCH", "tls.key"],
    ];
    for (const [place, code, file] of cases) {
      expect(() => loadTlsPair(place), code).toThrow(expect.objectContaining({ code }));
      expect(() => loadTlsPair(place), code).toThrow(join(place, file));
    }
  });
});

describe("loading certificates of authorities", () => {
  function file(text: string): string {
    const path = join(mkdtempSync(join(directory, "ca-")), "ca.pem");
    writeFileSync(path, text);
    return path;
  }

  it("takes one or several, with whatever stands between them", async () => {
    const other = await selfSignedPair(new VirtualClock(NOW));
    for (const text of [pair.cert, `# ours\n${pair.cert}\n# theirs\n${other.cert}`])
      expect(loadCertificates(file(text))).toBe(text);
  });

  it("names a file that is missing, empty, or has a broken one among good ones", () => {
    const broken = pair.cert.replace(/[A-Za-z0-9]{20}/, "!!!!");
    for (const text of ["", "garbage", pair.key, `${pair.cert}\n${broken}`]) {
      const path = file(text);
      expect(() => loadCertificates(path)).toThrow(expect.objectContaining({ code: "TLS_FILE_INVALID" }));
      expect(() => loadCertificates(path)).toThrow(path);
    }
    const missing = join(directory, "nowhere.pem");
    expect(() => loadCertificates(missing)).toThrow(expect.objectContaining({ code: "TLS_FILE_UNREADABLE" }));
  });
});
