import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { poll } from "../../../test/support/poll.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import type { LocalService } from "./local-service.ts";
import { PathTable } from "./path-table.ts";
import { type RunningProxy, startProxy } from "./server.ts";

let proxy: RunningProxy | undefined;
const errors: unknown[] = [];

afterEach(async () => {
  await proxy?.close();
  expect(errors.splice(0)).toEqual([]);
});

/** A proxy whose requests below /v1/files go to `answer`. */
async function serve(answer: LocalService["answer"]): Promise<string> {
  proxy = await startProxy({
    listeners: [{ host: "127.0.0.1", port: 0 }],
    clock: realClock,
    random: new SeededRandom(1),
    openExchange() {
      throw new Error("no exchange is expected");
    },
    paths: new PathTable(() => false, []),
    authenticate: ({ headers }) => {
      const name = headers.get("authorization") ?? "";
      return {
        id: name,
        name,
        models: undefined,
        objective: undefined,
        priority: undefined,
        fairnessId: undefined,
        choosesFlow: false,
      };
    },
    local: { claims: (path) => path.startsWith("/v1/files"), answer },
    onError: (error) => errors.push(error),
  });
  return `http://127.0.0.1:${proxy.port}`;
}

describe("a service of the gateway", () => {
  it("gets the body and the caller of a request, and its answer goes back with its headers", async () => {
    const url = await serve(async (request, caller) => {
      const text = await request.text();
      const seen = {
        text,
        path: new URL(request.url).pathname,
        caller: caller?.name,
        key: request.headers.get("authorization"),
      };
      return Response.json(
        { ...seen, type: request.headers.get("content-type") },
        { status: 201, headers: { "x-a": "b" } },
      );
    });
    const response = await fetch(`${url}/v1/files/x?y=1`, {
      method: "POST",
      body: "hello",
      headers: { authorization: "k" },
    });
    expect([response.status, response.headers.get("x-a")]).toEqual([201, "b"]);
    expect(await response.json()).toEqual({
      ...{ text: "hello", path: "/v1/files/x", caller: "k", key: null, type: "text/plain;charset=UTF-8" },
    });
  });

  it("gets only its own paths", async () => {
    const url = await serve(async () => new Response("own"));
    expect((await fetch(`${url}/v1/other`)).status).toBe(403);
    expect(await (await fetch(`${url}/v1/files`)).text()).toBe("own");
  });

  it("gets a long body as fast as it reads, and no faster", async () => {
    let read = 0;
    const piece = 100_000;
    const open = Promise.withResolvers<void>();
    const url = await serve(async (request) => {
      const reader = request.body!.getReader();
      read += (await reader.read()).value!.length;
      await open.promise;
      for (let part = await reader.read(); !part.done; part = await reader.read()) read += part.value.length;
      return new Response(String(read));
    });
    let sent = 0;
    const body = new ReadableStream({
      pull(controller) {
        if (sent === 600) controller.close();
        else controller.enqueue(new Uint8Array(piece));
        sent++;
      },
    });
    const answer = fetch(`${url}/v1/files`, { method: "POST", body, duplex: "half" } as RequestInit);
    await poll("the first piece", () => read > 0);
    let [seen, still] = [0, 0];
    await poll("a client that waits", () => {
      still = sent === seen ? still + 1 : 0;
      seen = sent;
      return still === 20;
    });
    // What the sockets and the proxy hold is far less than the body.
    expect(sent).toBeLessThan(400);
    open.resolve();
    expect(await (await answer).text()).toBe(String(600 * piece));
  });

  it("streams a long answer, and stops when its client leaves", async () => {
    let made = 0;
    let cancelled = false;
    const url = await serve(
      async () =>
        new Response(
          new ReadableStream({
            pull(controller) {
              made++;
              controller.enqueue(new Uint8Array(100_000));
            },
            cancel() {
              cancelled = true;
            },
          }),
        ),
    );
    const request = httpRequest(`${url}/v1/files`, (response) => {
      response.once("data", () => request.destroy());
    });
    request.on("error", () => {});
    request.end();
    await poll("the end of the answer", () => cancelled);
    expect(made).toBeGreaterThan(0);
  });

  it("may refuse a request before its body has come", async () => {
    const url = await serve(async (request) => {
      await request.body?.cancel();
      return Response.json({ error: "no" }, { status: 413 });
    });
    const port = Number(new URL(url).port);
    const socket = connect(port, "127.0.0.1");
    let said = "";
    socket.on("data", (bytes: Buffer) => {
      said += bytes.toString();
    });
    socket.on("error", () => {});
    socket.write("POST /v1/files HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\nabc");
    await poll("the answer", () => said.includes('{"error":"no"}'));
    expect(said).toMatch(/^HTTP\/1\.1 413 .*connection: close/is);
    expect(said.match(/content-length/gi)).toHaveLength(1);
    socket.destroy();
  });

  it("hears that the client of an upload has left", async () => {
    let problem: unknown;
    const url = await serve(async (request) => {
      await request.text().catch((error: unknown) => {
        problem = error;
      });
      return new Response("");
    });
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.write("POST /v1/files HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\nabc");
    socket.on("error", () => {});
    await poll("the connection", () => proxy!.connections === 1);
    socket.destroy();
    await poll("the problem", () => problem !== undefined);
  });

  it("that fails is a 500, and its error is told", async () => {
    const url = await serve(async () => {
      throw new Error("broken");
    });
    expect((await fetch(`${url}/v1/files`)).status).toBe(500);
    expect(errors.splice(0)).toEqual([new Error("broken")]);
  });

  it("answers HEAD without a body, and lets the connection go on", async () => {
    const url = await serve(async () => new Response("x", { headers: { "content-length": "1" } }));
    const response = await fetch(`${url}/v1/files`, { method: "HEAD" });
    expect([response.status, response.headers.get("content-length"), await response.text()]).toEqual([200, "1", ""]);
    expect(await (await fetch(`${url}/v1/files`)).text()).toBe("x");
  });
});
