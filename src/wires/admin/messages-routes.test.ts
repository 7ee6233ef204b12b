import { afterEach, expect, it } from "vitest";
import { FOREIGN_ORDERS, sendOrder, wrongBodies } from "../../../test/support/cancel-orders.ts";
import { ask } from "../../../test/support/client.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { type Authorize, CANCEL_MESSAGE_PATH, loopbackOnly } from "./access.ts";
import { type DispatchAdmin, type DispatchViews, startDispatchAdmin } from "./dispatch-server.ts";
import type { MessageFeed } from "./feed/messages.ts";
import type { MessagesSource } from "./messages-routes.ts";

const VIEWS: DispatchViews = {
  ...{ metrics: () => "", ready: () => true, check: async () => {}, gates: () => [], queues: () => [] },
};
const MESSAGE: MessageFeed = { id: "m1", deadline: 1_900_000_000, created: null, retries: 0, bytes: 80 };

let admin: DispatchAdmin | undefined;
/** The ids of the messages that were cancelled. */
let cancelled: string[] = [];

afterEach(async () => {
  await admin?.close();
  cancelled = [];
});

const SOURCE: MessagesSource = {
  unable: undefined,
  next: async (queue) => (queue === "q" ? [MESSAGE] : undefined),
  async cancel(id) {
    if (id === "gone") return false;
    cancelled.push(id);
    return true;
  },
};

async function start(authorize: Authorize, messages: Partial<MessagesSource> = {}): Promise<string> {
  admin = await startDispatchAdmin({
    ...{ host: "127.0.0.1", healthPort: 0, metricsPort: 0, clock: new VirtualClock(), views: VIEWS, authorize },
    messages: { ...SOURCE, ...messages },
  });
  return `http://127.0.0.1:${admin.metricsPort}`;
}

const HERE = loopbackOnly(false);
/** The rule as it meets a client with another address, where the debug pages are open. */
const elsewhere: Authorize = (request) => loopbackOnly(true)({ ...request, peer: "192.0.2.7" });

const cancel = (
  url: string,
  body = '{"id":"m1"}',
  headers?: Readonly<Record<string, string>>,
  path = CANCEL_MESSAGE_PATH,
): Promise<[number, string]> => sendOrder(`${url}${path}`, body, headers);

async function list(url: string, query = "?queue=q"): Promise<[number, unknown]> {
  const { status, text } = await ask(`${url}/debug/queues/messages${query}`);
  return [status, JSON.parse(text)];
}

it("lists the next messages of a queue, and tells each reader whether it may cancel them", async () => {
  const url = await start(HERE);
  expect(await list(url)).toEqual([200, { queue: "q", at: expect.any(Number), mayCancel: true, messages: [MESSAGE] }]);
  expect(await list(url, "?queue=other")).toEqual([404, { error: "there is no such queue" }]);
  expect((await list(url, ""))[0]).toBe(400);
  await admin!.close();
  expect(await list(await start(elsewhere))).toEqual([
    200,
    { queue: "q", at: expect.any(Number), mayCancel: false, messages: [MESSAGE] },
  ]);
});

it("cancels a message for the page and for a program on this machine", async () => {
  const url = await start(HERE);
  expect(await cancel(url)).toEqual([200, '{"id":"m1"}']);
  const page = { origin: url, "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors" };
  expect((await cancel(url, '{"id":"m2"}', page))[0]).toBe(200);
  expect(cancelled).toEqual(["m1", "m2"]);
  expect(await cancel(url, '{"id":"gone"}')).toEqual([404, expect.stringContaining("it has ended")]);
});

it.each(FOREIGN_ORDERS)("refuses %s, and cancels nothing", async (_, headers, status) => {
  const url = await start(HERE);
  expect((await cancel(url, undefined, headers))[0]).toBe(status);
  expect(cancelled).toEqual([]);
});

it.each(wrongBodies(4096))("refuses the body %s, and cancels nothing", async (body, status) => {
  const url = await start(HERE);
  expect((await cancel(url, body))[0]).toBe(status);
  expect(cancelled).toEqual([]);
});

it("takes an order by POST alone, and none of other machines, whatever else is open", async () => {
  const url = await start(elsewhere);
  for (const path of [CANCEL_MESSAGE_PATH, CANCEL_MESSAGE_PATH.replace("cancel", "%63ancel")])
    expect((await cancel(url, undefined, {}, path))[0], path).toBe(403);
  await admin!.close();
  expect((await ask(`${await start(HERE)}${CANCEL_MESSAGE_PATH}`)).status).toBe(404);
  expect(cancelled).toEqual([]);
});

it("says that the store is away, and that a transport has no messages to list", async () => {
  const away = async (): Promise<never> => {
    throw new SluiceError("BROKER_UNAVAILABLE", "127.0.0.1:6379 does not answer");
  };
  const url = await start(HERE, { next: away, cancel: away });
  const problem = { error: "127.0.0.1:6379 does not answer" };
  expect(await list(url)).toEqual([503, problem]);
  expect(await cancel(url)).toEqual([503, JSON.stringify(problem)]);
  await admin!.close();
  const unable = await start(HERE, { unable: "the transport keeps no messages" });
  expect(await list(unable)).toEqual([409, { error: "the transport keeps no messages" }]);
  expect((await cancel(unable))[0]).toBe(409);
});
