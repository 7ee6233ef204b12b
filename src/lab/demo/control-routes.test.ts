import { Hono } from "hono";
import { beforeEach, expect, it } from "vitest";
import type { DemoState } from "../../wires/admin/feed/demo.ts";
import { controlRoutes, type DemoControls, OrderRefused } from "./control-routes.ts";

const STATE = { at: 1, ready: true } as DemoState;
let orders: unknown[];
let app: Hono;

beforeEach(() => {
  orders = [];
  const controls: DemoControls = {
    rates: [1, 90],
    state: () => Promise.resolve(STATE),
    server(order) {
      if (order.name === "server-9") throw new OrderRefused(404, "the demo has no server server-9");
      orders.push(order);
    },
    traffic: (order) => void orders.push(order),
    policy: (order) => void orders.push(order),
    wave: (order) =>
      (order.count > 400
        ? Promise.reject(new OrderRefused(409, "too many"))
        : void orders.push(order)) as Promise<void>,
  };
  app = new Hono();
  controlRoutes(app, controls);
});

async function post(path: string, body: string, headers: Record<string, string> = {}): Promise<[number, string]> {
  const answer = await app.request(`http://127.0.0.1:1${path}`, {
    method: "POST",
    body,
    headers: {
      ...{ host: "127.0.0.1:1", "content-type": "application/json", "content-length": String(body.length) },
      ...headers,
    },
  });
  return [answer.status, await answer.text()];
}

it("passes orders on, and answers with the state", async () => {
  expect(await post("/demo/server", '{"name":"server-1","order":"kill"}')).toEqual([200, JSON.stringify(STATE)]);
  expect(await post("/demo/traffic", '{"requestsPerSecond":12.5}', { origin: "http://127.0.0.1:1" })).toEqual([
    ...[200, JSON.stringify(STATE)],
  ]);
  await post("/demo/policy", '{"policy":"round-robin"}');
  await post("/demo/wave", '{"count":60}');
  expect(orders).toEqual([
    { name: "server-1", order: "kill" },
    { requestsPerSecond: 12.5 },
    { policy: "round-robin" },
    { count: 60 },
  ]);
});

it.each([
  ["a form of a foreign page", "/demo/wave", '{"count":1}', { "content-type": "text/plain" }, 415],
  ["another origin", "/demo/wave", '{"count":1}', { origin: "http://evil.example" }, 403],
  ["a long body", "/demo/wave", `{"count":1${" ".repeat(2000)}}`, {}, 413],
  ["no JSON", "/demo/wave", "{", {}, 400],
  ["an unknown field", "/demo/wave", '{"count":1,"more":2}', {}, 400],
  ["a number out of range", "/demo/wave", '{"count":501}', {}, 400],
  ["a rate out of range", "/demo/traffic", '{"requestsPerSecond":91}', {}, 400],
  ["an unknown policy", "/demo/policy", '{"policy":"best"}', {}, 400],
  ["an unknown server", "/demo/server", '{"name":"server-9","order":"kill"}', {}, 404],
  ["an order that is not possible now", "/demo/wave", '{"count":450}', {}, 409],
])("refuses %s, and nothing happens", async (_, path, body, headers, status) => {
  const [found, text] = await post(path, body, headers);
  expect(found).toBe(status);
  expect(JSON.parse(text)).toHaveProperty("error");
  expect(orders).toEqual([]);
});
