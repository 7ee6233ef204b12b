import type { Context, Hono } from "hono";
import { z } from "zod";
import type { DemoState, PolicyOrder, ServerOrder, TrafficOrder, WaveOrder } from "../../wires/admin/feed/demo.ts";
import type { FeedError } from "../../wires/admin/feed/feed.ts";

/** The longest body in bytes. */
const MAX_BODY = 1024;

/** An order that the demo does not take now. */
export class OrderRefused extends Error {
  readonly status: 404 | 409;

  constructor(status: 404 | 409, message: string) {
    super(message);
    this.status = status;
  }
}

/** What the page of the demo may do. An order that is not possible throws `OrderRefused`. */
export interface DemoControls {
  /** Requests per second: the least and the most. */
  readonly rates: readonly [least: number, most: number];
  state(): Promise<DemoState>;
  server(order: ServerOrder): void;
  traffic(order: TrafficOrder): void;
  policy(order: PolicyOrder): void;
  wave(order: WaveOrder): Promise<void>;
}

/** Adds the controls of a demo to its admin port. */
export function controlRoutes(app: Hono, controls: DemoControls): void {
  const fail = (context: Context, status: 400 | 403 | 404 | 409 | 413 | 415, error: string): Response =>
    context.json({ error } satisfies FeedError, status);
  const post = <T>(path: string, schema: z.ZodType<T>, act: (order: T) => void | Promise<void>): void => {
    app.post(path, async (context) => {
      // Only a page of this server can send JSON: for any other page the browser asks first, and gets no permission.
      if (!/^application\/json\b/i.test(context.req.header("content-type") ?? ""))
        return fail(context, 415, "send content-type: application/json");
      const origin = context.req.header("origin");
      if (origin !== undefined && URL.parse(origin)?.host !== context.req.header("host"))
        return fail(context, 403, "orders come from the page of this demo only");
      if (Number(context.req.header("content-length") ?? Number.POSITIVE_INFINITY) > MAX_BODY)
        return fail(context, 413, `an order has a content-length of at most ${MAX_BODY} bytes`);
      let body: unknown;
      try {
        body = JSON.parse(await context.req.text());
      } catch {
        return fail(context, 400, "the order is not JSON");
      }
      const order = schema.safeParse(body);
      if (!order.success) {
        const { path: at, message } = order.error.issues[0]!;
        return fail(context, 400, `${at.join(".") || "the order"}: ${message}`);
      }
      try {
        await act(order.data);
      } catch (error) {
        if (error instanceof OrderRefused) return fail(context, error.status, error.message);
        throw error;
      }
      return context.json(await controls.state());
    });
  };
  app.get("/demo/state", async (context) => {
    context.header("cache-control", "no-store");
    return context.json(await controls.state());
  });
  post("/demo/server", z.strictObject({ name: z.string().max(64), order: z.enum(["kill", "start"]) }), (order) =>
    controls.server(order),
  );
  const [least, most] = controls.rates;
  post("/demo/traffic", z.strictObject({ requestsPerSecond: z.number().min(least).max(most) }), (order) =>
    controls.traffic(order),
  );
  post("/demo/policy", z.strictObject({ policy: z.enum(["round-robin", "sluice"]) }), (order) =>
    controls.policy(order),
  );
  post("/demo/wave", z.strictObject({ count: z.int().min(1).max(500) }), (order) => controls.wave(order));
}
