import { once } from "node:events";
import { type AddressInfo, connect } from "node:net";
import { Hono } from "hono";
import { expect, it } from "vitest";
import { listen, shut } from "./listen.ts";

it("answers requests that come together before anything is loaded, also one of HTTP/1.0 without a host", async () => {
  const app = new Hono();
  app.get("/a", (context) => context.text("yes"));
  const server = await listen(app, { host: "127.0.0.1", port: 0 }, "a test");
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
