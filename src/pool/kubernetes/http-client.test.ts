import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { clientAuthority } from "../../../test/support/certificates.ts";
import { recordingLog } from "../../../test/support/kubernetes/fake-api.cases.ts";
import { answerBytes, chunkBytes, deadPort, type RawServer, rawServer } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import type { Clock } from "../../base/clock/clock.ts";
import { realClock } from "../../base/clock/real.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { ApiRequest } from "./api-client.ts";
import type { Credentials } from "./credentials.ts";
import { HttpApiClient } from "./http-client.ts";

const GET: ApiRequest = { method: "GET", path: "/api/v1/namespaces/ml/pods" };
const SECRET = "s3cr3t-token";
const closing: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function credentials(more: Partial<Credentials> = {}): Credentials {
  return { ca: undefined, insecureSkipVerify: false, token: async () => SECRET, ...more };
}

function client(server: string, more: Partial<Credentials> = {}, clock: Clock = realClock) {
  const record = recordingLog();
  const api = new HttpApiClient({ server, credentials: credentials(more), clock, log: record.log });
  closing.push(() => api.close());
  return { api, ...record };
}

async function listening(server: Server): Promise<number> {
  // A process that stands still for five seconds would find its idle connections closed, and a POST is not repeated.
  server.keepAliveTimeout = 0;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

async function serving(answer: (request: IncomingMessage, response: ServerResponse, body: string) => void) {
  const seen: { line: string; headers: IncomingMessage["headers"]; body: string }[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    seen.push({ line: `${request.method} ${request.url}`, headers: request.headers, body });
    answer(request, response, body);
  });
  return { url: `http://127.0.0.1:${await listening(server)}`, seen };
}

async function raw(answer: Parameters<typeof rawServer>[0]): Promise<RawServer & { url: string }> {
  const server = await rawServer(answer);
  closing.push(() => server.close());
  return { ...server, url: `http://127.0.0.1:${server.port}` };
}

describe("HttpApiClient", () => {
  it("sends method, path below the server's own, query, JSON and token, and reads JSON", async () => {
    const { url, seen } = await serving((_, response) => response.end('{"ä":1}'));
    const { api } = client(`${url}/k8s/c1/`);
    expect(api.server).toBe(`${url}/k8s/c1`);
    const query = { limit: 5, force: true, none: undefined, fieldSelector: "metadata.name=a b" };
    expect(await api.request({ ...GET, query })).toEqual({ ä: 1 });
    await api.request({ method: "PATCH", path: "/x", body: { ö: [1] }, contentType: "application/apply-patch+yaml" });
    expect(seen.map(({ line, body }) => [line, body])).toEqual([
      ["GET /k8s/c1/api/v1/namespaces/ml/pods?limit=5&force=true&fieldSelector=metadata.name%3Da+b", ""],
      ["PATCH /k8s/c1/x", '{"ö":[1]}'],
    ]);
    expect(seen[0]?.headers).toMatchObject({ authorization: `Bearer ${SECRET}`, accept: "application/json" });
    expect(seen[1]?.headers["content-type"]).toBe("application/apply-patch+yaml");
  });

  it("makes an error that says what to do of a refusal, with reason, causes and Retry-After", async () => {
    const answers = [
      [
        403,
        {},
        {
          kind: "Status",
          reason: "Forbidden",
          code: 403,
          message: 'pods is forbidden: User "system:serviceaccount:ml:epp" cannot list resource "pods"',
        },
      ],
      [429, { "retry-after": "7" }, { kind: "Status", reason: "TooManyRequests", message: "too many requests" }],
      [503, {}, "upstream connect error"],
    ] as const;
    let next = 0;
    const { url } = await serving((_, response) => {
      const [status, headers, body] = answers[next++]!;
      response.writeHead(status, headers).end(typeof body === "string" ? body : JSON.stringify(body));
    });
    const { api } = client(url);
    await expect(api.request(GET)).rejects.toMatchObject({
      code: "KUBERNETES_API",
      status: 403,
      reason: "Forbidden",
      message:
        'pods is forbidden: User "system:serviceaccount:ml:epp" cannot list resource "pods": give the service account ml/epp a Role with list on pods in namespace ml',
    });
    await expect(api.request(GET)).rejects.toMatchObject({
      status: 429,
      retryAfter: 7000,
      message: "too many requests",
    });
    await expect(
      api.stream(
        GET,
        () => {},
        () => {},
      ),
    ).rejects.toMatchObject({
      status: 503,
      message: `${url} answered 503 to GET /api/v1/namespaces/ml/pods: upstream connect error`,
    });
  });

  it("reads the token anew after 401 and tries once more; gives up when the token is the same", async () => {
    let token = "old";
    let refused = 0;
    const { url, seen } = await serving((request, response) => {
      response.statusCode = request.headers.authorization === "Bearer new" ? 200 : 401;
      response.end("{}");
    });
    const { api } = client(url, {
      token: async () => token,
      refused: () => {
        refused++;
        token = "new";
      },
    });
    expect(await api.request({ method: "POST", path: "/x", body: {} })).toEqual({});
    expect(seen.map(({ headers }) => headers.authorization)).toEqual(["Bearer old", "Bearer new"]);
    seen.length = 0;
    const other = client(url);
    await expect(other.api.request(GET)).rejects.toMatchObject({
      status: 401,
      message: expect.stringContaining("which may have expired"),
    });
    expect(seen.length).toBe(1);
    expect(refused).toBe(1);
  });

  it("says why when there are no credentials, and never shows the token", async () => {
    const { url } = await serving((_, response) => response.writeHead(500).end("no"));
    const without = client(url, { token: () => Promise.reject(new Error("the file is gone")) });
    await expect(without.api.request(GET)).rejects.toMatchObject({
      status: 0,
      message: `no credentials for ${url}: the file is gone`,
    });
    const illegal = client(url, { token: async () => `${SECRET}\u0007` });
    const failed = await illegal.api.request(GET).catch((error: Error) => `${error.stack} ${JSON.stringify(error)}`);
    expect(failed).toContain("the token has characters that an HTTP header cannot have");
    const plain = client(url);
    await plain.api.request(GET).catch(() => {});
    expect(plain.lines.length).toBe(1);
    expect(JSON.stringify([failed, illegal.lines, plain.lines, without.lines])).not.toContain(SECRET);
  });

  it("a GET whose kept connection was closed at that moment is sent once more, and nothing else is", async () => {
    const server = await raw(({ socket, index }) => {
      if (index === 1 || index === 4) socket.destroy();
      else socket.write(answerBytes(200, "{}"));
    });
    const { api } = client(server.url);
    await api.request(GET);
    expect(await api.request(GET)).toEqual({});
    await api.request(GET);
    await expect(api.request({ method: "PUT", path: "/x", body: {} })).rejects.toMatchObject({ status: 0 });
    expect(server.requests.length).toBe(5);
  });

  it("no answer is status 0: refused, reset half-way, no JSON", async () => {
    const dead = client(`http://127.0.0.1:${await deadPort()}`);
    await expect(dead.api.request(GET)).rejects.toMatchObject({
      status: 0,
      message: expect.stringMatching(/cannot be reached: .*ECONNREFUSED/),
    });
    const server = await raw(({ socket, index }) => {
      if (index === 0) socket.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{");
      else socket.write(answerBytes(200, "<html>"));
    });
    const { api } = client(server.url);
    await expect(api.request(GET)).rejects.toMatchObject({ status: 0, message: expect.stringContaining("broke") });
    await expect(api.request(GET)).rejects.toMatchObject({ status: 0, message: expect.stringContaining("not JSON") });
  });

  it("gives up after the timeout, which for a stream ends with the status line, and when the signal fires", async () => {
    const clock = new VirtualClock();
    const server = await raw(({ socket, head }) => {
      if (head.startsWith("GET /stream"))
        socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("1\n")}`);
    });
    const { api } = client(server.url, {}, clock);
    const slow = expect(api.request(GET)).rejects.toMatchObject({
      status: 0,
      message: expect.stringContaining("within 30 s"),
    });
    const lines: string[] = [];
    const stop = new AbortController();
    const streamed = expect(
      api.stream(
        { method: "GET", path: "/stream", signal: stop.signal },
        () => {},
        (line) => lines.push(line),
      ),
    ).rejects.toMatchObject({ status: 0 });
    await poll("both requests and a line", () => server.requests.length === 2 && lines.length === 1);
    clock.advance(30_000);
    await slow;
    server.sockets[1]?.write(chunkBytes("2\n"));
    await poll("another line", () => lines.length === 2);
    stop.abort();
    await streamed;
    await poll("closed connections", () => server.open() === 0);
    await expect(api.request({ ...GET, signal: AbortSignal.abort() })).rejects.toMatchObject({ status: 0 });
    expect(server.requests.length).toBe(2);
    expect(clock.pending).toBe(0);
  });

  it("hands on lines as they come, wherever the pieces end, after the status line and until the end", async () => {
    const text = '{"a":"äöü €"}\n{"b":"𝄞"}\n\n{"c":3}';
    const bytes = Buffer.from(text);
    const server = await raw(({ socket }) => {
      socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
      for (const byte of bytes)
        socket.write(Buffer.concat([Buffer.from("1\r\n"), Buffer.from([byte]), Buffer.from("\r\n")]));
      socket.write("0\r\n\r\n");
    });
    const { api } = client(server.url);
    const told: string[] = [];
    await api.stream(
      GET,
      () => told.push("open"),
      (line) => told.push(line),
    );
    expect(told).toEqual(["open", '{"a":"äöü €"}', '{"b":"𝄞"}', '{"c":3}']);
  });

  it("a stream that is cut, and one whose reader throws, reject and are closed", async () => {
    const server = await raw(({ socket, index }) => {
      socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("1\n2\n")}`);
      if (index === 0) socket.end();
    });
    const { api } = client(server.url);
    const lines: string[] = [];
    await expect(
      api.stream(
        GET,
        () => {},
        (line) => lines.push(line),
      ),
    ).rejects.toMatchObject({ status: 0 });
    const thrown = new Error("enough");
    const reader = (line: string) => {
      lines.push(line);
      throw thrown;
    };
    await expect(api.stream(GET, () => {}, reader)).rejects.toBe(thrown);
    expect(lines).toEqual(["1", "2", "1"]);
    await poll("closed connections", () => server.open() === 0);
  });

  it("accepts lines of 4 MiB, answers of 64 MiB to a GET and of 1 MiB to anything else (bound)", async () => {
    const MIB = 1024 * 1024;
    const { url } = await serving((request, response) => {
      const size = Number(new URL(request.url!, "http://x").searchParams.get("size"));
      const piece = Buffer.alloc(MIB, " ");
      for (let sent = 0; sent < size; sent += MIB) response.write(piece.subarray(0, Math.min(MIB, size - sent)));
      response.end();
    });
    const { api } = client(url);
    const lines: string[] = [];
    const stream = (size: number) =>
      api.stream(
        { ...GET, query: { size } },
        () => {},
        (line) => lines.push(line),
      );
    await stream(4 * MIB);
    expect(lines.map(({ length }) => length)).toEqual([4 * MIB]);
    await expect(stream(4 * MIB + 1)).rejects.toMatchObject({
      status: 0,
      message: expect.stringContaining("a line of more than 4194304 bytes"),
    });
    await expect(api.request({ ...GET, query: { size: 64 * MIB } })).rejects.toThrow("not JSON");
    await expect(api.request({ ...GET, query: { size: 64 * MIB + 1 } })).rejects.toThrow(
      "more than 67108864 bytes, the limit",
    );
    const post = (size: number) => api.request({ method: "POST", path: "/x", query: { size } });
    await expect(post(MIB)).rejects.toThrow("not JSON");
    await expect(post(MIB + 1)).rejects.toThrow("more than 1048576 bytes, the limit");
  });

  it("follows no redirect and reads no endless refusal (bound)", async () => {
    const server = await raw(({ socket, index }) => {
      if (index === 0) socket.write(answerBytes(302, "", "location: http://127.0.0.1:1/\r\n"));
      else
        socket.write(`HTTP/1.1 500 X\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("x".repeat(1024 * 1024 + 1))}`);
    });
    const { api } = client(server.url);
    await expect(api.request(GET)).rejects.toMatchObject({ status: 302 });
    await expect(api.request(GET)).rejects.toMatchObject({ status: 500 });
  });

  it("trusts the authority given, shows a client certificate, and takes new ones for the next request", async () => {
    const [ours, theirs] = await Promise.all([clientAuthority(), clientAuthority()]);
    const server = createTlsServer(
      { ...ours.server, ca: ours.ca, requestCert: true, rejectUnauthorized: false },
      (request, response) => {
        const { authorized } = request.socket as unknown as { authorized: boolean };
        response.end(JSON.stringify({ authorized }));
      },
    );
    const url = `https://127.0.0.1:${await listening(server as unknown as Server)}`;
    let ca = theirs.ca;
    const rotating = {
      ...credentials(),
      get ca() {
        return ca;
      },
    };
    const api = new HttpApiClient({ server: url, credentials: rotating, clock: realClock });
    closing.push(() => api.close());
    await expect(api.request(GET)).rejects.toMatchObject({
      status: 0,
      message: expect.stringContaining("cannot be reached"),
    });
    ca = ours.ca;
    expect(await api.request(GET)).toEqual({ authorized: false });
    expect(await client(url, { ca, ...ours.client }).api.request(GET)).toEqual({ authorized: true });
    expect(await client(url, { insecureSkipVerify: true }).api.request(GET)).toEqual({ authorized: false });
    await expect(client(url, { ca, serverName: "kubernetes.default" }).api.request(GET)).rejects.toThrow(
      "kubernetes.default",
    );
    expect(await client(url, { ca, serverName: "localhost" }).api.request(GET)).toEqual({ authorized: false });
  });

  it("closing ends what is under way and refuses what comes later", async () => {
    const server = await raw(() => {});
    const { api } = client(server.url);
    const running = expect(api.request(GET)).rejects.toMatchObject({
      status: 0,
      message: expect.stringContaining("Sluice closed the connection"),
    });
    await poll("the request", () => server.requests.length === 1);
    await api.close();
    await running;
    await expect(api.request(GET)).rejects.toThrow("Sluice closed the connection");
    await poll("no connection", () => server.open() === 0);
  });
});
