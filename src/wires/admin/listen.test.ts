import { once } from "node:events";
import { type AddressInfo, connect } from "node:net";
import { Hono } from "hono";
import { expect, it, vi } from "vitest";
import { ask } from "../../../test/support/client.ts";
import { listen, shut } from "./listen.ts";

it("answers requests that come together before anything is loaded, also one of HTTP/1.0 without a host", async () => {
  const app = new Hono();
  app.get("/a", (context) => context.text("yes"));
  const server = await listen(app, { host: "127.0.0.1", port: 0 }, "a test", () => {});
  const { port } = server.address() as AddressInfo;
  const ask = async (): Promise<string> => {
    const socket = connect(port, "127.0.0.1");
    let text = "";
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    socket.write("GET /a HTTP/1.0\r\n\r\n");
    await once(socket, "close");
    return text;
  };
  const answers = await Promise.all([ask(), ask(), ask()]);
  for (const answer of answers) expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*yes$/);
  await shut(server);
});

it("answers 500 and logs one line when the package that it loads late has been replaced", async () => {
  vi.resetModules();
  vi.doMock("@hono/node-server", () => {
    throw new Error("gone");
  });
  try {
    const fresh = await import("./listen.ts");
    const logged: unknown[] = [];
    const options = { host: "127.0.0.1", port: 0 };
    const server = await fresh.listen(new Hono(), options, "a test", (error) => void logged.push(error));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const answers = [...(await Promise.all([ask(url), ask(url)])), await ask(url, { body: "x".repeat(100_000) })];
    for (const { status, headers, text } of answers) {
      expect([status, headers.connection]).toEqual([500, "close"]);
      expect(text).toContain("its log has the error");
    }
    expect(logged).toEqual([expect.any(Error)]);
    await shut(server);
  } finally {
    vi.doUnmock("@hono/node-server");
    vi.resetModules();
  }
});
