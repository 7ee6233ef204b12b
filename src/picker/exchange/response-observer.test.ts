import { describe, expect, it } from "vitest";
import { HeaderList } from "../../base/inference/headers.ts";
import { ResponseObserver } from "./response-observer.ts";

function observer(type: string, status = 200): ResponseObserver {
  const observed = new ResponseObserver();
  observed.headers(status, HeaderList.of([["content-type", type]]), 0);
  return observed;
}
const feed = (observed: ResponseObserver, text: string, end = false, now = 0) =>
  observed.chunk(Buffer.from(text), end, now);
const USAGE = '{"usage":{"prompt_tokens":7,"completion_tokens":5}}';

describe("ResponseObserver", () => {
  it("times non-empty chunks: the first byte, then the gaps", () => {
    const observed = observer("text/event-stream");
    expect(feed(observed, "", false, 5)).toBeNaN();
    expect(observed.firstByteAt).toBeNaN();
    expect(feed(observed, "a", false, 10)).toBeNaN();
    expect(feed(observed, "", false, 12)).toBeNaN();
    expect(feed(observed, "bc", false, 17)).toBe(7);
    expect(feed(observed, "d", true, 17)).toBe(0);
    expect([observed.firstByteAt, observed.chunks, observed.bytes]).toEqual([10, 3, 4]);
  });

  it("reads the usage of a JSON answer at its end and not before", () => {
    const observed = observer("application/json");
    feed(observed, USAGE.slice(0, 20));
    feed(observed, USAGE.slice(20));
    expect(observed.usage).toBeUndefined();
    feed(observed, "", true);
    expect(observed.usage).toMatchObject({ promptTokens: 7, completionTokens: 5 });
    observed.finish();
    expect(observed.usage).toMatchObject({ promptTokens: 7 });
  });

  it("reads media types and codings in any case of letters", () => {
    const observed = new ResponseObserver();
    const headers = HeaderList.of([
      ["content-type", "Text/Event-Stream"],
      ["content-encoding", "Identity"],
    ]);
    observed.headers(200, headers, 0);
    expect([observed.isEventStream, observed.isEncoded]).toEqual([true, false]);
  });

  it("reads the usage of a stream while it passes, whatever follows its content type", () => {
    const observed = observer("text/event-stream; charset=utf-8");
    expect([observed.isEventStream, observed.holding]).toEqual([true, false]);
    feed(observed, `data: ${USAGE}\n\n`);
    expect(observed.usage).toMatchObject({ completionTokens: 5 });
    feed(observed, "data: [DONE]\n\n", true);
    expect(observed.usage).toMatchObject({ completionTokens: 5 });
  });

  it("reads a last line that nobody ended", () => {
    const observed = observer("text/event-stream");
    feed(observed, `data: ${USAGE}`, true);
    expect(observed.usage).toMatchObject({ completionTokens: 5 });
  });

  it("gives a body up that is dropped or above 4 MiB, and holds exactly 4 MiB", () => {
    const dropped = observer("application/json");
    feed(dropped, USAGE);
    dropped.drop();
    feed(dropped, "", true);
    expect([dropped.usage, dropped.holding]).toEqual([undefined, false]);
    const padded = Buffer.alloc(4 * 1024 * 1024, 0x20);
    Buffer.from(USAGE).copy(padded);
    const exact = observer("application/json");
    exact.chunk(padded, false, 0);
    expect(exact.holding).toBe(true);
    exact.finish();
    expect(exact.usage).toMatchObject({ promptTokens: 7 });
    const above = observer("application/json");
    above.chunk(padded, false, 0);
    feed(above, " ", false);
    expect(above.holding).toBe(false);
    above.finish();
    expect([above.usage, above.bytes]).toEqual([undefined, padded.length + 1]);
  });

  it.each([
    [199, false],
    [200, true],
    [299, true],
    [300, false],
    [0, false],
  ])("calls status %i a success: %s", (status, succeeded) => {
    expect(observer("text/plain", status).succeeded).toBe(succeeded);
  });

  it("takes an answer without headers or content type for one piece", () => {
    const observed = new ResponseObserver();
    observed.beginWithoutHeaders(Buffer.from(USAGE), 0);
    feed(observed, USAGE, true);
    expect(observed.usage).toMatchObject({ promptTokens: 7 });
    expect(observed.contentType).toBe("");
  });
});
