import { afterEach, expect, it } from "vitest";
import { FOREIGN_ORDERS, sendOrder, wrongBodies } from "../../../test/support/cancel-orders.ts";
import { ask } from "../../../test/support/client.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { type AdminRequest, type Authorize, CANCEL_PATH, loopbackOnly } from "./access.ts";
import type { BatchesSource } from "./batches-routes.ts";
import type { BatchFeed } from "./feed/batches.ts";
import type { FeedSource } from "./page/source.ts";
import { type AdminServer, startAdmin } from "./server.ts";
import type { AdminViews } from "./views.ts";

const VIEWS = { peers: () => undefined } as AdminViews;
const FEED = { at: 1, open: 1, batches: [] } as unknown as Awaited<ReturnType<BatchesSource["feed"]>>;

let admin: AdminServer | undefined;
/** The ids of the batches that were cancelled. */
let cancelled: string[] = [];
let logged: unknown[] = [];

afterEach(async () => {
  await admin?.close();
  cancelled = [];
  logged = [];
});

const SOURCE: BatchesSource = {
  feed: async () => FEED,
  async cancel(id) {
    if (id === "batch_none") return undefined;
    const isCancelled = id !== "batch_ended";
    if (isCancelled) cancelled.push(id);
    return { batch: { id, status: isCancelled ? "cancelling" : "completed" } as BatchFeed, isCancelled };
  },
};

async function start(authorize: Authorize, batches: BatchesSource | null = SOURCE): Promise<string> {
  admin = await startAdmin({
    ...{ host: "127.0.0.1", port: 0, clock: new VirtualClock(), views: VIEWS, authorize },
    batches: batches ?? undefined,
    feed: { failed: (error: unknown) => void logged.push(error) } as FeedSource,
  });
  return `http://127.0.0.1:${admin.port}`;
}

/** The rule as it meets a client with another address. */
const seenFrom =
  (peer: string, open: boolean): Authorize =>
  (request) =>
    loopbackOnly(open)({ ...request, peer });

const cancel = (
  url: string,
  body = '{"id":"batch_1"}',
  headers?: Readonly<Record<string, string>>,
  path = CANCEL_PATH,
): Promise<[number, string]> => sendOrder(`${url}${path}`, body, headers);

it("cancels a batch for the page and for a program on this machine, and answers with the batch", async () => {
  const url = await start(loopbackOnly(false));
  expect(await cancel(url)).toEqual([200, '{"id":"batch_1","status":"cancelling"}']);
  const page = { origin: url, "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors" };
  expect((await cancel(url, '{"id":"batch_2"}', page))[0]).toBe(200);
  expect(cancelled).toEqual(["batch_1", "batch_2"]);
});

it("says which batch there is not, and which one has ended", async () => {
  const url = await start(loopbackOnly(false));
  expect(await cancel(url, '{"id":"batch_none"}')).toEqual([404, '{"error":"there is no such batch"}']);
  expect(await cancel(url, '{"id":"batch_ended"}')).toEqual([
    ...[409, '{"error":"a batch with the status completed cannot be cancelled"}'],
  ]);
});

it("answers 503 with the reason while the store is away, and 500 to a fault of its own, which the log has", async () => {
  const away = new SluiceError("BROKER_UNAVAILABLE", "redis://10.0.0.1:6379 does not answer");
  let fault: Error = away;
  const failing = () => Promise.reject(fault);
  const url = await start(loopbackOnly(false), { feed: failing, cancel: failing });
  const list = async () => {
    const { status, text } = await ask(`${url}/debug/batches`);
    return [status, text];
  };
  const because = [503, '{"error":"redis://10.0.0.1:6379 does not answer"}'];
  expect(await list()).toEqual(because);
  expect(await cancel(url)).toEqual(because);
  expect(logged).toEqual([]);
  fault = new TypeError("a fault");
  expect(await list()).toEqual([500, '{"error":"a fault"}']);
  expect(await cancel(url)).toEqual([500, '{"error":"a fault"}']);
  expect(logged).toEqual([fault, fault]);
});

it.each(FOREIGN_ORDERS)("refuses %s, and cancels nothing", async (_, headers, status) => {
  const url = await start(loopbackOnly(false));
  expect((await cancel(url, undefined, headers))[0]).toBe(status);
  expect(cancelled).toEqual([]);
});

it.each(wrongBodies(1024))("refuses the body %s, and cancels nothing", async (body, status) => {
  const url = await start(loopbackOnly(false));
  expect((await cancel(url, body))[0]).toBe(status);
  expect(cancelled).toEqual([]);
});

it("takes an order by POST alone", async () => {
  const url = await start(loopbackOnly(false));
  expect((await ask(`${url}${CANCEL_PATH}`)).status).toBe(404);
  expect((await ask(`${url}/debug/batches`, { method: "POST", body: "{}" })).status).toBe(405);
  expect(cancelled).toEqual([]);
});

it("takes no order of other machines, however the path is written and whatever else is open", async () => {
  const url = await start(seenFrom("192.0.2.7", true));
  for (const path of [CANCEL_PATH, CANCEL_PATH.replace("cancel", "%63ancel"), `${CANCEL_PATH}?x=1`])
    expect((await cancel(url, undefined, {}, path))[0], path).toBe(403);
  expect(cancelled).toEqual([]);
});

it("tells each reader whether it may cancel, by the rule for the order", async () => {
  const mayCancel = async (url: string): Promise<unknown> =>
    JSON.parse((await ask(`${url}/debug/batches`)).text) as unknown;
  expect(await mayCancel(await start(loopbackOnly(false)))).toEqual({ ...FEED, mayCancel: true });
  await admin!.close();
  expect(await mayCancel(await start(seenFrom("192.0.2.7", true)))).toEqual({ ...FEED, mayCancel: false });
  await admin!.close();
  const asked: AdminRequest[] = [];
  await mayCancel(
    await start((request) => {
      asked.push(request);
      return undefined;
    }),
  );
  expect(asked.map(({ method, path }) => [method, path])).toEqual([
    ["GET", "/debug/batches"],
    ["POST", CANCEL_PATH],
  ]);
});

it("has nothing to cancel in a process without batches", async () => {
  const url = await start(loopbackOnly(false), null);
  const { status, text } = await ask(`${url}/debug/batches`);
  for (const answer of [await cancel(url), [status, text]])
    expect(answer).toEqual([404, expect.stringContaining("this process has no batches")]);
});
