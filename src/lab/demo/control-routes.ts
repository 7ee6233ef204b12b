import type { Hono } from "hono";
import { z } from "zod";
import type { DemoState, PolicyOrder, ServerOrder, TrafficOrder, WaveOrder } from "../../wires/admin/feed/demo.ts";
import { postedJson, refused } from "../../wires/admin/page/posted-json.ts";

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
  const post = <T>(path: string, schema: z.ZodType<T>, act: (order: T) => void | Promise<void>): void => {
    app.post(path, async (context) => {
      const posted = await postedJson(context, {
        maxBody: MAX_BODY,
        foreign: "only the page of this demo can send orders",
        tooLong: `an order must have a content-length of at most ${MAX_BODY} bytes`,
        notJson: "the order is not JSON",
      });
      if ("refusal" in posted) return posted.refusal;
      const order = schema.safeParse(posted.json);
      if (!order.success) {
        const { path: at, message } = order.error.issues[0]!;
        return refused(context, 400, `${at.join(".") || "the order"}: ${message}`);
      }
      try {
        await act(order.data);
      } catch (error) {
        if (error instanceof OrderRefused) return refused(context, error.status, error.message);
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
