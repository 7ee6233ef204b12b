import { afterEach, describe, expect, it } from "vitest";
import { FakeExchange } from "../../../test/support/fake-exchange.ts";
import { answerBytes } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { ProxyHarness } from "../../../test/support/proxy-harness.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { UnopenedRequest } from "../../picker/exchange/request-log.ts";
import type { Wire } from "../../picker/exchange/wire.ts";
import { jsonAnswer, type OwnAnswer, rejectionAnswer } from "./local-answer.ts";

let harness = new ProxyHarness();
afterEach(async () => {
  await harness.close();
  harness = new ProxyHarness();
});

/** What the proxy reports of the bytes of one connection. */
async function reported(bytes: string): Promise<readonly UnopenedRequest[]> {
  const seen: UnopenedRequest[] = [];
  const model = await harness.model(({ socket }) => void socket.write(answerBytes(200, "served")));
  await harness.start({ endpoints: [model.endpoint] }, { onUnopened: (request) => seen.push(request) });
  await harness.ask(bytes);
  return seen;
}

describe("a request without an exchange", () => {
  it.each([
    [
      "a head that the proxy refuses",
      "GET /a?b HTTP/1.1\r\nhost: a\r\nhost: b\r\nx-request-id: mine\r\n\r\n",
      { requestId: "mine", method: "GET", target: "/a?b", status: 400, reason: "bad_request" },
    ],
    [
      "a path that may not pass",
      "POST /sleep HTTP/1.1\r\nhost: a\r\nx-request-id: mine\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
      { requestId: "mine", method: "POST", target: "/sleep", status: 403, reason: "path_not_allowed" },
    ],
    ["bytes that are no HTTP", "HELLO\r\n\r\n", { status: 400, reason: "bad_request" }],
    [
      "an upgrade",
      "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
      { status: 501, reason: "not_supported" },
    ],
    [
      "a body that announces too much",
      "POST / HTTP/1.1\r\nhost: a\r\nx-request-id: mine\r\ncontent-length: 99999999999\r\n\r\n",
      { requestId: "mine", method: "POST", target: "/", status: 413, reason: "too_large" },
    ],
  ])("is reported once, with the id of its answer: %s", async (_what, bytes, expected) => {
    const seen = await reported(bytes);
    expect(seen).toHaveLength(1);
    expect(seen[0]).toMatchObject({ requestId: expect.stringMatching(/./), ...expected });
    expect(harness.exchanges).toEqual([]);
  });

  it("may be one that the gateway itself refuses, with the id of its answer; an own answer that is none is not reported", async () => {
    const seen: UnopenedRequest[] = [];
    const ownAnswer: OwnAnswer = ({ path }, client) => {
      if (path === "/v1/models") return jsonAnswer({ data: [] }, client.requestId);
      const refusal = new Rejection("model_not_found", "no such model");
      return rejectionAnswer(refusal, client.answerId(refusal));
    };
    await harness.start({}, { ownAnswer, onUnopened: (request) => seen.push(request) });
    for (const path of ["/v1/models", "/v1/models/x"])
      await harness.ask(`GET ${path} HTTP/1.1\r\nhost: a\r\nx-request-id: mine\r\nconnection: close\r\n\r\n`);
    expect(seen).toEqual([
      { requestId: "mine", method: "GET", target: "/v1/models/x", status: 404, reason: "model_not_found" },
    ]);
    expect(harness.exchanges).toEqual([]);
  });

  it("is not one whose exchange reports its own end", async () => {
    const head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    const seen: UnopenedRequest[] = [];
    const wires: Wire[] = [];
    await harness.start(
      {},
      {
        onUnopened: (request) => seen.push(request),
        openExchange(wire) {
          wires.push(wire);
          const exchange = new FakeExchange({}, wire);
          harness.exchanges.push(exchange);
          return exchange;
        },
      },
    );
    const client = await harness.client();
    client.send(`${head}1\r\nx\r\n`);
    await poll("the exchange", () => harness.exchanges.length === 1);
    client.send("no length\r\n");
    await poll("its end", () => harness.exchange.ends.length === 1);
    expect([seen, harness.metrics.bad, harness.exchange.ends]).toEqual([[], [], ["client-gone"]]);
    expect(wires[0]!.ownAnswer).toMatchObject({ status: 400, reason: "bad_request" });
  });

  it("may be a connection that is refused", async () => {
    const seen: UnopenedRequest[] = [];
    await harness.start({}, { limits: { connections: 1 }, onUnopened: (request) => seen.push(request) });
    await harness.client();
    await harness.client();
    await poll("the refusal", () => seen.length > 0);
    expect(seen).toEqual([{ reason: "connection_refused" }]);
  });
});
