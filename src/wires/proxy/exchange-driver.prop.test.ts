import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loopbackEndpoint } from "../../../test/support/fake-exchange.ts";
import { answerBytes, chunkBytes, deadPort, type RawRequest, type RawServer } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { ProxyHarness } from "../../../test/support/proxy-harness.ts";
import { fixedLimit } from "../../../test/support/slowness.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { EndCause } from "../../picker/exchange/wire.ts";

const CHUNKED = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n";
const SSE = `${CHUNKED}content-type: text/event-stream\r\n\r\n${chunkBytes("data: {}\n\n")}`;

/** What a model server does with every request. */
const FAULTS = {
  refuse: undefined,
  reset: ({ socket }: RawRequest) => void socket.resetAndDestroy(),
  close: ({ socket }: RawRequest) => void socket.end(),
  busy: ({ socket }: RawRequest) => void socket.write(answerBytes(503, "busy")),
  busyAndGone: ({ socket }: RawRequest) => void socket.end("HTTP/1.1 503 X\r\ncontent-length: 9\r\n\r\nbus"),
  halfHead: ({ socket }: RawRequest) => void socket.end("HTTP/1.1 200 OK\r\nx-a"),
  halfBody: ({ socket }: RawRequest) => void socket.end(`${CHUNKED}\r\n${chunkBytes("half")}`),
  halfStream: ({ socket }: RawRequest) => void socket.end(SSE),
  stallEarly: () => {},
  stallLate: ({ socket }: RawRequest) => void socket.write(SSE),
  whole: ({ socket }: RawRequest) => void socket.write(answerBytes(200, "whole")),
  wholeStream: ({ socket }: RawRequest) => void socket.write(`${SSE}0\r\n\r\n`),
  empty: ({ socket }: RawRequest) => void socket.write("HTTP/1.1 204 X\r\n\r\n"),
} satisfies Record<string, ((request: RawRequest) => void) | undefined>;
type Fault = keyof typeof FAULTS;

const MAX_RETRIES = 2;

/** How it must end, by the rules alone. */
function expected(
  faults: readonly Fault[],
  replayable: boolean,
): { cause: EndCause; status: number; attempts: number } {
  for (let n = 0; ; n++) {
    const fault = faults[n]!;
    const attempts = n + 1;
    const next = replayable && n < MAX_RETRIES && n + 1 < faults.length;
    switch (fault) {
      case "refuse":
      case "reset":
      case "close":
        if (next) continue;
        // The list used up: the rejection of the exchange; the retries used up: ours.
        return { cause: "rejected", status: n + 1 < faults.length && fault !== "refuse" ? 502 : 503, attempts };
      case "busy":
      case "busyAndGone":
        if (next) continue;
        return { cause: fault === "busy" ? "complete" : "interrupted", status: 503, attempts };
      case "halfHead":
        return { cause: "rejected", status: 502, attempts };
      case "halfBody":
      case "halfStream":
        return { cause: "interrupted", status: 200, attempts };
      case "stallEarly":
        return { cause: "client-gone", status: 0, attempts };
      case "stallLate":
        return { cause: "client-gone", status: 200, attempts };
      case "empty":
        return { cause: "complete", status: 204, attempts };
      default:
        return { cause: "complete", status: 200, attempts };
    }
  }
}

const harness = new ProxyHarness();
const servers = new Map<Fault, RawServer>();
let refusing = 0;
let list: Endpoint[] = [];

beforeAll(async () => {
  refusing = await deadPort();
  for (const [name, fault] of Object.entries(FAULTS)) {
    if (fault !== undefined) servers.set(name as Fault, await harness.model(fault));
  }
  await harness.start(
    {
      get endpoints() {
        return list;
      },
    },
    { maxRetries: MAX_RETRIES, limits: { replayBytes: 1000 }, timers: { linger: 50 } },
  );
});
afterAll(() => harness.close());

describe("D-48 D-49 D-52 D-53: any sequence of faults", () => {
  it("the books are closed exactly once, with the right cause, and nothing stays open", {
    timeout: fixedLimit(60_000),
  }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom(...(Object.keys(FAULTS) as Fault[])), { minLength: 1, maxLength: 5 }),
        fc.constantFrom(0, 5, 1000, 1001),
        fc.boolean(),
        async (faults, bytes, leaves) => {
          list = faults.map((fault) => loopbackEndpoint(servers.get(fault)?.port ?? refusing));
          const early = servers.get("stallEarly")!;
          const arrived = early.requests.length;
          const want = expected(faults, bytes <= 1000);
          const client = await harness.client();
          const closed = new Promise((resolve) => client.socket.once("close", resolve));
          client.send(`POST / HTTP/1.1\r\nhost: gw\r\nconnection: close\r\ncontent-length: ${bytes}\r\n\r\n`);
          if (bytes > 0) client.send("x".repeat(bytes));
          if (leaves && bytes > 0) client.socket.destroy();
          else if (want.cause === "client-gone") {
            await poll("it stalls", () =>
              want.status === 0 ? early.requests.length > arrived : client.text().includes("data: {}"),
            );
            client.socket.destroy();
          }
          await closed;
          await poll("all connections end", () => harness.proxy.connections === 0);
          const exchange = harness.exchanges.at(-1);
          if (leaves && bytes > 0) {
            // Whatever had happened by then: once, and without a breach.
            for (const { ends, breaches } of harness.exchanges) {
              expect(ends).toHaveLength(1);
              expect(breaches).toEqual([]);
            }
            harness.exchanges.length = 0;
            return;
          }
          expect(exchange!.breaches).toEqual([]);
          expect(exchange!.ends).toEqual([want.cause]);
          const text = client.text();
          if (want.status > 0) expect(text.slice(0, 12)).toBe(`HTTP/1.1 ${want.status}`);
          expect(text.match(/HTTP\/1\.1 /g)?.length ?? 0).toBe(want.status > 0 ? 1 : 0);
          const failed = exchange!.failures.map(({ endpoint }) => endpoint);
          expect(failed).toEqual(list.slice(0, failed.length));
          // The last attempt may have failed without a word to the exchange: it had an answer, or a client that left.
          expect([want.attempts - 1, want.attempts]).toContain(failed.length);
          expect(complete(text)).toBe(want.cause === "complete" || want.cause === "rejected");
          harness.exchanges.length = 0;
        },
      ),
      { seed: 1, numRuns: 120 },
    );
    expect(harness.errors).toEqual([]);
    for (const fault of ["stallEarly", "stallLate"] as const) {
      await poll(`no connection to ${fault} is left`, () => servers.get(fault)!.open() === 0);
    }
  });
});

/** Whether the client could read a whole answer. */
function complete(text: string): boolean {
  const at = text.indexOf("\r\n\r\n");
  if (at < 0) return false;
  const [head, body] = [text.slice(0, at), text.slice(at + 4)];
  if (/^HTTP\/1\.1 204/.test(head)) return body === "";
  const length = /content-length: (\d+)/i.exec(head)?.[1];
  return length === undefined ? body.endsWith("0\r\n\r\n") : body.length === Number(length);
}
