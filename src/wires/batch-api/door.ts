import { getConnInfo } from "@hono/node-server/conninfo";
import { Hono } from "hono";
import type { BatchCaller } from "../../async/batch-api/records.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { rejectionAnswer, requestIdOf } from "../proxy/local-answer.ts";
import type { Authenticate } from "../proxy/options.ts";
import type { BatchApi } from "./batch-api.ts";
import { EVERYBODY } from "./services.ts";

/** A caller as a batch keeps it. */
export function batchCaller({ id, name, models, objective, priority, fairnessId }: Caller): BatchCaller {
  return { id, name, models: models && [...models], objective, priority, fairnessId };
}

/** The app of a process of its own: lets in who has a key, and answers health checks of everybody. */
export function batchDoor(api: BatchApi, authenticate: () => Authenticate | undefined, random: Random): Hono {
  const app = new Hono();
  app.get("/health", (context) => context.json({ status: "ok" }));
  app.all("*", async (context) => {
    const { raw, method } = context.req;
    const { pathname, search } = new URL(raw.url);
    const headers = HeaderList.of(raw.headers.entries());
    headers.add("x-forwarded-for", getConnInfo(context).remote.address ?? "");
    const verdict = await authenticate()?.({ method, path: pathname + search, headers });
    if (verdict instanceof Rejection) {
      const { status, headers: flat, body } = rejectionAnswer(verdict, requestIdOf([], random));
      const pairs = flat.flatMap((name, at): [string, string][] => (at % 2 === 0 ? [[name, flat[at + 1]!]] : []));
      return new Response(new Uint8Array(body), { status, headers: pairs });
    }
    return api(raw, verdict === undefined ? EVERYBODY : batchCaller(verdict));
  });
  return app;
}
