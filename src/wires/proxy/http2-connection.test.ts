import { constants } from "node:http2";
import { afterEach, beforeAll, expect, it } from "vitest";
import { type ClientAuthority, clientAuthority } from "../../../test/support/certificates.ts";
import { answerBytes } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { ProxyHarness } from "../../../test/support/proxy-harness.ts";
import { askSession, h2Session } from "../../../test/support/tls-client.ts";
import type { ProxyLimits } from "./options.ts";

const POST = { ":method": "POST", ":path": "/v1/completions" };

let authority: ClientAuthority;
beforeAll(async () => {
  authority = await clientAuthority();
});

let harness: ProxyHarness;
const cleanUps: (() => void)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
  await harness.close();
});

/** A proxy in front of a model server that holds its answers. */
async function holding(limits: Partial<ProxyLimits>) {
  harness = new ProxyHarness();
  const model = await harness.model(() => {});
  const listeners = [{ host: "127.0.0.1", port: 0, tls: authority.server }];
  await harness.start({ endpoints: [model.endpoint] }, { listeners, limits });
  const session = () => {
    const made = h2Session({ port: harness.proxy.port, ca: authority.ca });
    cleanUps.push(() => made.destroy());
    return made;
  };
  return { model, session };
}

it("one address leaves places for the streams of others", async () => {
  const { model, session } = await holding({ connections: 16, connectionsPerAddress: 16, streams: 100 });
  const asked = Array.from({ length: 4 }, session).flatMap((one) =>
    Array.from({ length: 5 }, () => askSession(one, POST, "x")),
  );
  const first = await Promise.race(asked);
  expect(first.code).toBe(constants.NGHTTP2_REFUSED_STREAM);
  // An address that has a quarter of all places leaves an eighth of them.
  await poll("the others run", () => model.requests.length === 14);
  expect(harness.exchanges).toHaveLength(14);
  for (const { socket } of model.requests) socket.write(answerBytes(200, "done"));
  const codes = (await Promise.all(asked)).map(({ code }) => code);
  expect(codes.filter((code) => code === constants.NGHTTP2_REFUSED_STREAM)).toHaveLength(6);
  await poll("their exchanges end", () => harness.exchanges.every(({ ended }) => ended));
  // The places are free again.
  const again = askSession(session(), POST, "x");
  await poll("one more runs", () => model.requests.length === 15);
  model.requests[14]!.socket.write(answerBytes(200, "done"));
  expect((await again).text).toBe("done");
});

it("a connection with streams keeps its place, an idle one gives way with GOAWAY", async () => {
  const { model, session } = await holding({ connections: 4, connectionsPerAddress: 4 });
  const busy = session();
  void askSession(busy, POST, "x");
  await poll("it runs", () => model.requests.length === 1);
  const idle = session();
  let goaway: number | undefined;
  idle.on("goaway", (code) => {
    goaway = code;
  });
  const asked = askSession(idle, POST, "x");
  await poll("it runs", () => model.requests.length === 2);
  model.requests[1]!.socket.write(answerBytes(200, "done"));
  await asked;
  for (const running of [3, 4, 5]) {
    void askSession(session(), POST, "x");
    await poll("one more runs", () => model.requests.length === running);
  }
  await poll("the idle one is gone", () => idle.closed);
  expect(goaway).toBe(constants.NGHTTP2_NO_ERROR);
  expect(busy.closed).toBe(false);
});
