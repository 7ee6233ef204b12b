import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { HEADERS, NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { poll } from "../../../test/support/poll.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { InferenceExchange } from "./exchange.ts";
import { spanText } from "./span-text.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const EXCHANGES = 8;

/** Routes a request, whose body the wire has passed on. */
function routed(core: TestCore): { readonly exchange: InferenceExchange; readonly body: WeakRef<Uint8Array> } {
  const exchange = core.openExchange(NO_WIRE);
  const messages = [{ role: "user", content: "x".repeat(100_000) }];
  const body = Buffer.from(JSON.stringify({ model: "m", stream: true, messages }));
  exchange.requestHeaders(HEADERS, false);
  expect(exchange.requestBody(body, true)).toMatchObject({ kind: "routed", endpoints: [{}, {}, {}] });
  exchange.releaseBody();
  return { exchange, body: new WeakRef(body) };
}

describe("names in spans that wait to be sent", () => {
  it("do not keep alive the long ones that they were cut from", () => {
    const heap = (): number => {
      collectGarbage();
      return process.memoryUsage().heapUsed;
    };
    const before = heap();
    const kept = Array.from({ length: 50 }, (_, i) =>
      spanText(Buffer.alloc(1_000_000, `model-${i}-`).toString("latin1")),
    );
    expect(heap() - before).toBeLessThan(10_000_000);
    expect(kept.every((text) => text.length === 256)).toBe(true);
  });
});

describe("the bodies of requests that are being answered", () => {
  it.each([
    ["a proxy walks down the list", true],
    ["nobody does", false],
  ])("are let go of, though plugins may yet be told who served: %s", async (_, retries) => {
    const core = new TestCore({ retries });
    const underWay = Array.from({ length: EXCHANGES }, () => routed(core));
    // The plugins may hold the last one until they see the next.
    const others = underWay.slice(0, -1);
    await poll("they are gone", () => {
      collectGarbage();
      return others.every(({ body }) => body.deref() === undefined);
    });
    for (const { exchange } of underWay) exchange.end("complete");
    expect(core.inFlight).toBe(0);
  });
});

describe("the body of a request that was refused after plugins had seen it", () => {
  it("is let go of at once, not with the next decision", async () => {
    const sessionIdConfig = { sources: [{ header: "x-session" }] };
    const config = {
      ...{ apiVersion: "llm-d.ai/v1alpha1", kind: "EndpointPickerConfig" },
      plugins: [
        { type: "prefix-cache-scorer" },
        { type: "no-hit-lru-scorer" },
        { type: "session-affinity-scorer", parameters: { strategy: "session_id", sessionIdConfig } },
      ],
    };
    const core = new TestCore({ config: JSON.stringify(config) });
    const refused = (): WeakRef<Uint8Array> => {
      const exchange = core.openExchange(NO_WIRE);
      const messages = [{ role: "user", content: "x".repeat(100_000) }];
      const body = Buffer.from(JSON.stringify({ model: "m", messages }));
      const headers = HeaderList.of([
        [":path", "/v1/chat/completions"],
        ["x-session", "s"],
        ["prefer", "if-available"],
      ]);
      exchange.requestHeaders(headers, false);
      expect(exchange.requestBody(body, true)).toMatchObject({ status: 412 });
      exchange.end("rejected");
      return new WeakRef(body);
    };
    const body = refused();
    await poll("it is gone", () => {
      collectGarbage();
      return body.deref() === undefined;
    });
  });
});
