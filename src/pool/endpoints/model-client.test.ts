import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";
import { deadPort } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { realClock } from "../../base/clock/real.ts";
import { askForModels, MAX_ANSWER_BYTES, type ModelAnswer } from "./model-client.ts";
import { PoolEndpoint } from "./pool-endpoint.ts";
import { namesOf } from "./served-models.ts";

const cleanUps: (() => unknown)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
});

async function serve(answer: RequestListener): Promise<number> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanUps.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

const at = (port: number, address = "127.0.0.1") =>
  new PoolEndpoint({ namespace: "default", name: "e", address, port, rank: 0, labels: {} }, 0, 50, 0, 0);
const asked = (endpoint: PoolEndpoint): Promise<ModelAnswer> =>
  new Promise((resolve) => askForModels(realClock, endpoint, undefined, resolve));

it("reads the list of GET /v1/models, over a connection that it closes", async () => {
  const seen: string[] = [];
  const port = await serve(({ method, url, headers }, response) => {
    seen.push(`${method} ${url} ${headers.connection}`);
    response.end('{"object":"list","data":[{"id":"m"},{"id":"sql","parent":"m"}]}');
  });
  const answer = await asked(at(port));
  expect(answer.kind === "listed" && namesOf(answer.models)).toEqual(["m", "sql"]);
  expect(seen).toEqual(["GET /v1/models close"]);
});

it.each([
  ["an error", 401, "{}", "HTTP 401 from /v1/models"],
  ["a redirect", 302, "{}", "HTTP 302 from /v1/models"],
  ["no list", 200, "{}", "no list"],
  ["one byte too much", 200, " ".repeat(MAX_ANSWER_BYTES + 1), "more than 1048576 bytes"],
])("says what is wrong with %s", async (_, status, body, problem) => {
  const port = await serve((_request, response) => response.writeHead(status).end(body));
  expect(await asked(at(port))).toEqual({ kind: "unusable", problem: expect.stringContaining(problem) });
});

it("is silent about servers that refuse or break the connection, and about addresses that make no URL", async () => {
  const broken = await serve((request) => request.socket.destroy());
  for (const endpoint of [at(await deadPort()), at(broken), at(80, "a b")])
    expect(await asked(endpoint)).toEqual({ kind: "silent" });
});

it("a cancel closes the connection and gives no answer", async () => {
  let open = 0;
  const port = await serve((request) => {
    open++;
    request.socket.on("close", () => open--);
  });
  let answers = 0;
  const question = askForModels(realClock, at(port), undefined, () => answers++);
  await poll("the question", () => open === 1);
  question.cancel();
  await poll("the end of the connection", () => open === 0);
  expect(answers).toBe(0);
});
