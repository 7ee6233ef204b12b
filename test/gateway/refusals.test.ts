import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, chat, JSON_HEADERS } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe("what the gateway says to a request that it refuses", () => {
  let sims: Sim[];
  let gateway: TestGateway;
  let empty: TestGateway;

  beforeAll(async () => {
    sims = await startSims(1);
    gateway = await startGateway(endpointsFile([sims[0]!.port]));
    empty = await startGateway(endpointsFile([]));
  });
  afterAll(async () => {
    for (const { process } of [gateway, empty, ...sims]) await process?.stop();
  });

  const CHAT = "/v1/chat/completions";

  it.each([
    ["a list", "[]", "the request body must be a JSON object, but is an array"],
    ["a text", '"hello"', "the request body must be a JSON object, but is a string"],
    ["half an object", '{"model": "sim"', "the request body is empty or ends too early; send a complete JSON object"],
    [
      "an object that is none",
      "{model: 1}",
      "the request body is not valid JSON: invalid character 'm' looking for beginning of object key string",
    ],
    ["nothing", "", "the request body is empty; send a JSON object"],
  ])("to %s: what was expected, in the shape of OpenAI, with the id of the request", async (_what, body, message) => {
    const own = { ...JSON_HEADERS, "x-request-id": "mine" };
    const answer = await ask(`${gateway.url}${CHAT}`, { method: "POST", headers: own, body });
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.text)).toEqual({
      error: {
        message,
        type: "invalid_request_error",
        param: null,
        code: 400,
        help: "docs/reference/errors.md#bad_request",
      },
    });
    expect(answer.headers["x-request-id"]).toBe("mine");
    const fresh = await ask(`${gateway.url}${CHAT}`, { method: "POST", headers: JSON_HEADERS, body });
    expect(fresh.headers["x-request-id"]).toMatch(UUID);
  });

  it("and still passes on what needs no body", async () => {
    expect((await ask(`${gateway.url}/v1/models`)).status).toBe(200);
  });

  it("tells the id where nobody is there to answer, and the file without entries is warned about", async () => {
    const answer = await ask(`${empty.url}${CHAT}`, { headers: JSON_HEADERS, body: chat("hello") });
    expect([answer.status, answer.headers["x-gateway-error"]]).toEqual([503, "no-endpoint"]);
    expect(answer.headers["x-request-id"]).toMatch(UUID);
    await poll("the warning", () => empty.process.stderr.includes("the file lists no endpoints"));
  });

  /** The whole answer to bytes on a connection of their own. */
  async function raw(bytes: string): Promise<string> {
    const socket = connect(gateway.port, "127.0.0.1");
    let text = "";
    let closed = false;
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      closed = true;
    });
    socket.write(bytes);
    await poll("the answer", () => closed || text.includes("}}"));
    socket.destroy();
    return text;
  }

  it.each([
    ["a request line that is none", "HELLO\r\n\r\n", 400],
    ["an unknown version", "GET / HTTP/3.9\r\nhost: a\r\n\r\n", 400],
    ["two hosts", "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400],
    ["an upgrade", "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", 501],
    ["an unknown expectation", "POST / HTTP/1.1\r\nhost: a\r\nexpect: a miracle\r\ncontent-length: 1\r\n\r\n", 417],
    ["a body that is too large", `POST ${CHAT} HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999\r\n\r\n`, 413],
  ])("tells an id before there is an exchange: %s", async (_what, bytes, status) => {
    const answer = await raw(bytes);
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(/^x-request-id: (.*)\r$/m.exec(answer)?.[1]).toMatch(UUID);
    const named = await raw(bytes.replace("host: a\r\n", "host: a\r\nx-request-id: mine-too\r\n"));
    // Of a request that could not be read nothing is known.
    if (status !== 501 && !/HELLO|3\.9/.test(bytes)) expect(named).toContain("x-request-id: mine-too\r\n");
  });
});
