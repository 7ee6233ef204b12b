import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, chat, JSON_HEADERS } from "../support/client.ts";
import { startEnvoy } from "../support/envoy.ts";
import { poll } from "../support/poll.ts";
import { endpointsFile, type Stack, seenBy, startEpp, startStack } from "../support/stack.ts";

const MODES = [
  ["BUFFERED", "BUFFERED"],
  ["BUFFERED_PARTIAL", "STREAMED"],
  ["STREAMED", "FULL_DUPLEX_STREAMED"],
  ["NONE", "NONE"],
] as const;

/** Failures of the filter: no exchange that works may move one of them. */
const FAILURES = ["spurious_msgs_received", "streams_failed", "message_timeouts", "failure_mode_allowed"];

describe.each(MODES)("real Envoy 1.40, requests %s, responses %s (D-9, D-10, D-17)", (requests, responses) => {
  const seesBody = requests.startsWith("BUFFERED");
  let stack: Stack;

  beforeAll(async () => {
    stack = await startStack("standalone", {
      simArgs: ["--max-model-len", "4000000", "--inter-token-latency", "2", "--prefill-time-per-token", "0"],
      edit: (yaml) =>
        yaml
          .replace(/request_body_mode: \S+/, `request_body_mode: ${requests}`)
          .replace(/response_body_mode: \S+/, `response_body_mode: ${responses}`),
    });
    await poll("the first answer", async () => (await ask(`${stack.url}/v1/models`)).status === 200);
  });
  afterAll(() => stack?.stop());

  it.each([
    ["with a length", 10, {}],
    ["with a length", 900_000, {}],
    ["in chunks", 5000, { "transfer-encoding": "chunked" }],
  ])("carries a body %s of %i bytes unharmed, and its answer", async (how, size, headers) => {
    const body = chat("x".repeat(size));
    const id = `${how}-${size}`;
    const length = how === "in chunks" ? {} : { "content-length": String(body.length) };
    const answer = await ask(`${stack.url}/v1/chat/completions`, {
      headers: { ...JSON_HEADERS, ...headers, ...length, "x-test-id": id },
      body,
    });
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text).usage.completion_tokens).toBe(5);
    const [seen] = await seenBy(stack.sims, id);
    expect(seen).toMatchObject({
      bodyLength: body.length,
      bodySha256: createHash("sha256").update(body).digest("hex"),
      lengthMismatch: false,
    });
  });

  it("carries a streamed answer to its end", async () => {
    const { status, text } = await ask(`${stack.url}/v1/chat/completions`, {
      headers: JSON_HEADERS,
      body: chat("hello", { stream: true }),
    });
    expect(status).toBe(200);
    expect(text).toMatch(/data: \[DONE\]\s*$/);
  });

  it("refuses what is not JSON, where the picker sees it; the model server does otherwise", async () => {
    const { status, text } = await ask(`${stack.url}/v1/chat/completions`, { headers: JSON_HEADERS, body: "{" });
    expect(status).toBe(400);
    expect(text.includes("inference error")).toBe(seesBody);
  });

  if (seesBody)
    it("forwards a rewritten model with the new length", async () => {
      const { status, text } = await ask(`${stack.url}/v1/chat/completions`, {
        headers: { ...JSON_HEADERS, "x-gateway-model-name-rewrite": "sim" },
        body: chat("hello", { model: "the-name-that-clients-use" }),
      });
      expect(status).toBe(200);
      // Chunks that the proxy keeps are forwarded as they are; a whole body can be changed.
      expect(JSON.parse(text).model).toBe(responses === "BUFFERED" ? "the-name-that-clients-use" : "sim");
    });

  it("does all that without a failure of the filter", async () => {
    const page = await ask(`http://127.0.0.1:${stack.envoy.adminPort}/stats?filter=ext_proc`);
    for (const name of FAILURES) expect(page.text).toMatch(new RegExp(`ext_proc\\.(\\S+\\.)?${name}: 0\\n`));
  });
});

describe("real Envoy 1.40, an HTTP upgrade (E-38, D-84)", () => {
  it("reaches the picked server at once, and its bytes flow both ways", async () => {
    const server = createServer((_, response) => response.end());
    server.on("upgrade", (_, socket) => {
      socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n");
      socket.on("data", (bytes: Buffer) => socket.write(bytes.toString().toUpperCase()));
      socket.on("error", () => {});
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const epp = await startEpp(endpointsFile([port]));
    const envoy = await startEnvoy({
      variant: "standalone",
      eppPort: epp.port,
      serverPorts: [port],
      edit: (yaml) => yaml.replace(/^( *)stat_prefix: .*$/m, "$&\n$1upgrade_configs: [{ upgrade_type: echo }]"),
    });
    try {
      await envoy.findsPickers();
      await poll("the first answer", async () => (await ask(`http://127.0.0.1:${envoy.port}/x`)).status === 200);
      const socket = connect(envoy.port, "127.0.0.1");
      let seen = "";
      socket.on("data", (bytes) => {
        seen += bytes;
      });
      socket.write("GET /v1/realtime HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n");
      await poll("the switch of protocols", async () => seen.includes("101 Switching Protocols"));
      for (const word of ["first", "second"]) {
        socket.write(word);
        await poll(`the echo of ${word}`, async () => seen.endsWith(word.toUpperCase()));
      }
      socket.destroy();
    } finally {
      server.closeAllConnections();
      server.close();
      await Promise.all([envoy.process.stop(), epp.process.stop()]);
    }
  });
});
