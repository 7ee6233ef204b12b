import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { HEADERS, NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { RequestHook, ResponseCompleteContext } from "../../base/plugin/kinds.ts";
import type { Routed } from "./wire.ts";

const JSON_ANSWER = HeaderList.of([["content-type", "application/json"]]);
const USAGE = Buffer.from('{"usage":{"prompt_tokens":7,"completion_tokens":10,"total_tokens":17}}');

function run(
  plugins: readonly RequestHook[],
  core = new TestCore({ hooks: plugins.map((plugin, i) => ({ name: `h${i}`, plugin })) }),
) {
  const exchange = core.openExchange(NO_WIRE);
  exchange.requestHeaders(HEADERS, false);
  const route = exchange.requestBody(Buffer.from(chatBody()), true) as Routed;
  return { core, exchange, route };
}

describe("request hooks", () => {
  it("set headers and metadata of the forwarded request; the later one wins", () => {
    const { route } = run([
      {
        preRequest: ({ setHeader, setMetadata }) => {
          setHeader("X-A", "1");
          setMetadata("ns", "k", 1);
        },
      },
      {
        preRequest: ({ setHeader, setMetadata, endpoints }) => {
          setHeader("x-a", endpoints[0]!.hostPort);
          setMetadata("ns", "j", true);
        },
      },
    ]);
    expect(route.headers).toEqual(HeaderList.of([["x-a", route.endpoints[0]!.hostPort]]));
    expect(route.metadata).toEqual({ ns: { k: 1, j: true } });
  });

  it("remove headers that were received; whoever sets one wins, before or after", () => {
    const { route } = run([
      {
        preRequest: ({ setHeader, removeHeader }) => {
          setHeader("x-first", "kept");
          removeHeader("X-Gone");
          removeHeader("x-gone");
          removeHeader("x-last");
        },
      },
      {
        preRequest: ({ setHeader, removeHeader }) => {
          removeHeader("X-First");
          setHeader("X-Last", "kept");
        },
      },
    ]);
    expect(route.removed).toEqual(["x-gone"]);
    expect(route.headers).toEqual(
      HeaderList.of([
        ["x-first", "kept"],
        ["x-last", "kept"],
      ]),
    );
    expect(run([{ preRequest() {} }]).route.removed).toBeUndefined();
  });

  it("remove 64 headers of a request and no more (bound)", () => {
    const { core, route } = run([
      {
        preRequest: ({ removeHeader }) => {
          for (let i = 0; i < 64; i++) removeHeader(`x-${i}`);
          removeHeader("X-0");
        },
      },
      { preRequest: ({ removeHeader }) => removeHeader("x-64") },
    ]);
    expect(route.removed).toHaveLength(64);
    expect(core.errors.map(String)).toEqual([expect.stringContaining("more than 64 headers")]);
  });

  it("see the only profile by its name", () => {
    const seen: unknown[] = [];
    const { route } = run([{ preRequest: ({ profiles }) => seen.push(...profiles) }]);
    expect(seen).toEqual([["default", route.endpoints]]);
  });

  it("E-73: see the usage of a complete answer and add metadata to it", () => {
    const seen: ResponseCompleteContext[] = [];
    const { exchange } = run([
      {
        responseComplete: (context) => {
          seen.push(context);
          context.setMetadata("envoy.lb", "cost", context.usage!.completionTokens);
        },
      },
    ]);
    exchange.responseHeaders(200, JSON_ANSWER, false);
    exchange.responseBody(USAGE, false);
    expect(exchange.responseMetadata).toBeUndefined();
    exchange.responseBody(Buffer.alloc(0), true);
    expect(exchange.responseMetadata).toEqual({ "envoy.lb": { cost: 10 } });
    exchange.end("client-gone");
    expect(seen.map(({ cause, status }) => [cause, status])).toEqual([["natural", 200]]);
    expect(seen[0]!.request!.body.length).toBe(0);
  });

  it("E-75: see the response's headers, who serves, and what the proxy reports", () => {
    const reports: unknown[] = [];
    const { core, exchange } = run([
      {
        responseReceived: ({ metadata, endpoint, status, setHeader }) => {
          reports.push([metadata?.["x-gateway-destination-endpoint-served"], endpoint!.hostPort, status]);
          setHeader("x-seen", "yes");
        },
      },
    ]);
    exchange.servedBy(core.endpoint(3).hostPort);
    const served = { "x-gateway-destination-endpoint-served": "10.0.0.3:8000" };
    expect(exchange.responseHeaders(200, JSON_ANSWER, false, served)).toEqual(HeaderList.of([["x-seen", "yes"]]));
    expect(reports).toEqual([["10.0.0.3:8000", "10.0.0.3:8000", 200]]);
  });

  it.each([
    ["client-gone", "client-disconnect"],
    ["interrupted", "error"],
    ["error", "error"],
    ["no-response-phase", "natural"],
  ] as const)("E-70: are told once of an end by %s", (cause, told) => {
    const causes: string[] = [];
    const { exchange } = run([{ responseComplete: ({ cause: seen }) => causes.push(seen) }]);
    exchange.end(cause);
    exchange.end("complete");
    expect(causes).toEqual([told]);
    expect(exchange.responseMetadata).toBeUndefined();
  });

  it("are told of an eviction", () => {
    const causes: string[] = [];
    const evictions: string[] = [];
    const core = new TestCore({
      hooks: [{ name: "h", plugin: { responseComplete: ({ cause }) => causes.push(cause) } }],
    });
    const exchange = core.openExchange({
      ...NO_WIRE,
      evict: (rejection) => {
        evictions.push(`${rejection.status} ${rejection.text}`);
        exchange.end("rejected", rejection);
      },
    });
    exchange.requestHeaders(HEADERS, false);
    exchange.requestBody(Buffer.from(chatBody()), true);
    exchange.revoke();
    exchange.revoke();
    expect(evictions).toEqual(["429 inference error: ResourceExhausted - request evicted by flow control"]);
    expect(causes).toEqual(["evicted"]);
    expect(core.inFlight).toBe(0);
  });

  it("one that throws is reported and disturbs nobody", () => {
    const calls: string[] = [];
    const bad = () => {
      throw new Error("broken");
    };
    const { core, exchange, route } = run([
      { preRequest: bad, responseReceived: bad, responseComplete: bad },
      {
        preRequest: () => calls.push("pre"),
        responseReceived: () => calls.push("received"),
        responseComplete: () => calls.push("complete"),
      },
    ]);
    expect(route.kind).toBe("routed");
    exchange.responseHeaders(200, JSON_ANSWER, true);
    expect(calls).toEqual(["pre", "received", "complete"]);
    expect(core.errors).toHaveLength(3);
  });

  it("one that fails later, having been written as asynchronous, is reported and does not end the process", async () => {
    const late = async () => {
      throw new Error("broken");
    };
    const { core, exchange } = run([{ preRequest: late, responseReceived: late, responseComplete: late }]);
    exchange.responseHeaders(200, JSON_ANSWER, true);
    await Promise.resolve();
    expect(core.errors).toHaveLength(3);
  });

  it("hear nothing of a header-only request's end, nor of a refusal", () => {
    const calls: string[] = [];
    const core = new TestCore({
      endpoints: 1,
      hooks: [
        { name: "h", plugin: { preRequest: () => calls.push("pre"), responseComplete: () => calls.push("complete") } },
      ],
    });
    const get = core.openExchange(NO_WIRE);
    get.requestHeaders(HEADERS, true);
    get.responseHeaders(200, JSON_ANSWER, true);
    const refused = core.openExchange(NO_WIRE);
    refused.requestHeaders(HEADERS, false);
    refused.requestBody(Buffer.from("{"), true);
    refused.end("rejected");
    expect(calls).toEqual([]);
  });
});
