import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AccessEntry, durationIn, numberIn, timeIn } from "./access-entry.ts";
import { AccessFields } from "./access-fields.ts";
import { AccessLog } from "./access-log.ts";
import { isLogLine, textEntry } from "./access-text.ts";

const AT = Date.UTC(2026, 2, 1, 12, 0, 0, 250);

function json(value: object, ...fields: string[]): AccessEntry | string {
  return new AccessFields(fields).entry(value as Record<string, unknown>);
}

describe("an entry of an access log", () => {
  it("is read as Envoy's JSON has it, in the format that the documentation gives", () => {
    const entry = json({
      ...{ start_time: "2026-03-01T12:00:00.250Z", method: "POST", path: "/v1/chat/completions?x=secret" },
      ...{ response_code: 200, duration: 380, bytes_received: 1739, bytes_sent: 1201 },
      ...{ response_content_type: "text/event-stream; charset=utf-8", upstream_host: "10.0.0.1:8000" },
      ...{ request_id: "29e9", session_id: "c0", prompt_tokens: 404, completion_tokens: "8", model: null },
    });
    expect(entry).toEqual({
      ...{ start: AT, end: undefined, durationMs: 380, method: "POST", path: "/v1/chat/completions", status: 200 },
      ...{ bytesReceived: 1739, bytesSent: 1201, streamed: true, upstream: "10.0.0.1:8000", model: undefined },
      ...{ session: "c0", tenant: undefined, promptTokens: 404, outputTokens: 8 },
    });
  });

  it("is read as Envoy's default format and Istio's have it", () => {
    const own =
      '[2026-03-01T12:00:00.250Z] "POST /v1/completions HTTP/1.1" 200 - 1739 1201 380 - "192.0.2.2" "curl/8" "29e9" "host:80" "10.0.0.1:8000"';
    const istio =
      '[2026-03-01T12:00:00.250Z] "POST /v1/completions HTTP/2" 200 - via_upstream - "-" 1739 1201 380 379 "-" "curl \\"8\\"" "29e9" "host" "10.0.0.1:8000" outbound|8000||llm 10.0.0.9:1 - - default';
    for (const line of [own, istio]) {
      expect(isLogLine(line)).toBe(true);
      expect(textEntry(line)).toMatchObject({
        ...{ start: AT, method: "POST", path: "/v1/completions", status: 200, durationMs: 380 },
        ...{ bytesReceived: 1739, bytesSent: 1201, upstream: "10.0.0.1:8000", session: undefined },
      });
    }
    expect(textEntry(own.replace('"10.0.0.1:8000"', '"-"'))).toMatchObject({ upstream: undefined });
    expect(textEntry(own.replace("2026-03-01T12", "yesterday"))).toMatch(/^"yesterday.* is not a time$/);
    expect(textEntry(own.replace("POST /v1/completions HTTP/1.1", "-"))).toBe('"-" is not a request line');
  });

  it("is read as the Common and the Combined Log Format have it", () => {
    const common = '192.0.2.2 - anna [01/Mar/2026:13:00:00 +0100] "POST /v1/completions HTTP/1.1" 200 2326';
    for (const line of [common, `${common} "-" "curl/8"`])
      expect(textEntry(line)).toMatchObject({
        ...{ start: undefined, end: AT - 250, method: "POST", path: "/v1/completions", status: 200 },
        ...{ bytesSent: 2326, bytesReceived: undefined, tenant: "anna", upstream: undefined },
      });
    expect(textEntry(common.replace("200 2326", "499 -"))).toMatchObject({ status: 499, bytesSent: undefined });
    expect(textEntry(common.replace("Mar", "Mrz"))).toMatch(/is not a time$/);
    expect(textEntry("something else")).toMatch(/^neither JSON, nor Envoy's default format, nor the Common/);
  });

  it("is read as nginx, Traefik, Caddy and OpenTelemetry write JSON", () => {
    const path = { method: "POST", path: "/v1/completions", status: 200 };
    expect(
      json({
        ...{ time_iso8601: "2026-03-01T12:00:01+00:00", request: "POST /v1/completions HTTP/1.1", status: "200" },
        ...{ request_time: "0.750", request_length: "900", body_bytes_sent: "10" },
        upstream_addr: "10.0.0.1:8000, 10.0.0.2:8000",
      }),
    ).toMatchObject({ ...path, end: AT + 750, durationMs: 750, bytesReceived: 900, upstream: "10.0.0.2:8000" });
    expect(
      json({
        ...{ StartUTC: "2026-03-01T12:00:00.250123456Z", RequestMethod: "POST", RequestPath: "/v1/completions" },
        ...{ DownstreamStatus: 200, Duration: 1_500_000, ServiceAddr: "10.0.0.1:8000" },
      }),
    ).toMatchObject({ ...path, start: AT, durationMs: 1.5 });
    expect(
      json({ ts: AT / 1000, request: { method: "POST", uri: "/v1/completions" }, status: 200, duration: 1.5, size: 7 }),
    ).toMatchObject({ ...path, end: AT, durationMs: 1500, bytesSent: 7 });
    expect(
      json({
        timestamp: AT * 1e6,
        http: { request: { method: "post" }, response: { status_code: 200 } },
        ...{ "url.path": "/v1/completions", "gen_ai.usage.input_tokens": 5, gen_ai: { usage: { output_tokens: 6 } } },
      }),
    ).toMatchObject({ ...path, end: expect.closeTo(AT, 1), promptTokens: 5, outputTokens: 6 });
  });

  it("is looked for where it is said to be, and nowhere else then", () => {
    const entry = {
      when: AT,
      start_time: 5,
      m: "POST",
      req: { line: ["/v1/completions"], headers: { "x-chat": "c7" } },
    };
    const found = json(entry, "start=when", "method=m", "path=req.line.0", "session=req.headers.x-chat");
    expect(found).toMatchObject({ start: AT, method: "POST", path: "/v1/completions", session: "c7" });
    expect(json({ ...entry, when: "-" }, "start=when", "method=m", "path=req.line.0")).toBe("its start is not at when");
    expect(() => json({}, "sesion=a")).toThrow(
      /^--field "sesion=a" is not a field of an access log; did you mean `session`\?/,
    );
    for (const bad of ["session", "session=", "=a"]) expect(() => json({}, bad)).toThrow(/^--field /);
  });

  it("says what it lacks, and which names were tried", () => {
    expect(json({ method: "POST", path: "/" })).toMatch(
      /^no start: the line has none of start_time, .*@timestamp.*; name the place of the value with --field start=path$/,
    );
    expect(json({ method: "POST", path: "/", start_time: "yesterday" })).toBe('no start: "yesterday" is not a time');
    expect(json({ start_time: AT, path: "/" })).toMatch(/^no method: the line has none of method, .* request,/);
    expect(json({ start_time: AT, method: "POST" })).toMatch(/^no path: /);
    // What every object has is no field.
    expect(json({ start_time: AT, method: "POST" }, "path=constructor.name")).toBe(
      "its path is not at constructor.name",
    );
  });

  it("keeps short texts only", () => {
    const entry = json({ start_time: AT, method: "POST", path: `/${"x".repeat(1000)}`, session_id: "s".repeat(1000) });
    expect((entry as AccessEntry).path).toHaveLength(256);
    expect((entry as AccessEntry).session).toHaveLength(256);
  });
});

describe("times of logs", () => {
  it("are the same whatever they are counted in", () => {
    fc.assert(
      fc.property(fc.integer({ min: Date.UTC(1990), max: Date.UTC(2200) }), (ms) => {
        for (const text of [new Date(ms).toISOString(), ms, `${ms}`, ms * 1e6])
          expect(timeIn(text)).toBeCloseTo(ms, -0.5);
        expect(timeIn(ms / 1000)).toBeCloseTo(ms, 0);
        expect(timeIn(new Date(ms).toISOString().replace("T", " ").replace("Z", " +0000"))).toBe(ms);
      }),
    );
  });

  it("are nothing where there is none", () => {
    for (const value of ["", "-", "yesterday", "2026-03", "32/Foo/2026:00:00:00 +0000", null, {}, Number.NaN, -1, 1e25])
      expect(timeIn(value)).toBeUndefined();
    // Without a zone it is UTC on every machine.
    expect(timeIn("2026-03-01 12:00:00.250")).toBe(AT);
    expect(timeIn("01/Mar/2026:12:00:00")).toBe(AT - 250);
    expect(timeIn("2026-03-01T13:00:00.250+01:00")).toBe(AT);
  });

  it("may name the unit of a duration", () => {
    expect(["1.5s", "250ms", "3 us", "7µs", "9ns", "2m", "1.5"].map((text) => durationIn(text, 1000))).toEqual([
      ...[1500, 250, 0.003, 0.007, 9e-6, 120_000, 1500],
    ]);
    for (const none of ["-", "", "s", "-1", undefined, Number.NaN]) expect(durationIn(none, 1)).toBeUndefined();
    expect(numberIn("1e3")).toBeUndefined();
  });
});

describe("an access log", () => {
  const entry = (more: Partial<AccessEntry> = {}): AccessEntry => ({
    ...(textEntry('a - - [01/Mar/2026:12:00:00 +0000] "POST /v1/chat/completions HTTP/1.1" 200 5') as AccessEntry),
    ...more,
  });

  it("keeps the inference requests that were answered, in the order of their arrivals, and names the others", () => {
    const log = new AccessLog();
    const ends = [3000, 1000, 2000].map((end) => entry({ end: AT + end, durationMs: 100 }));
    const others = [
      ...[entry({ method: "GET" }), entry({ method: "GET" }), entry({ path: "/tokenize" }), entry({ status: 503 })],
      ...[entry({ status: 0 }), entry({ path: "/v1/messages/", status: 201 }), entry({ status: undefined })],
      entry({ path: "/v1/embeddings" }),
    ];
    for (const one of [...ends, ...others]) log.add(one);
    expect(log.skipped).toEqual([
      { what: "GET requests", count: 2 },
      { what: "POST /tokenize, which is not an inference path", count: 1 },
      { what: "answered with 503", count: 1 },
      { what: "without an answer", count: 1 },
    ]);
    const at = log.requests.map((request) => request.at);
    expect(at).toEqual([...at].sort((a, b) => a - b));
    expect(at.slice(-3)).toEqual([AT + 900, AT + 1900, AT + 2900]);
    expect(log.requests.filter(({ generates }) => !generates).map(({ path }) => path)).toEqual(["/v1/embeddings"]);
  });

  it("keeps no more than it may, of requests and of reasons", () => {
    const log = new AccessLog(2);
    for (let i = 0; i < 5; i++) log.add(entry());
    for (let i = 0; i < 30; i++) log.add(entry({ path: `/${i}` }));
    expect(log.requests).toHaveLength(2);
    expect(log.beyond).toBe(3);
    expect(log.skipped).toHaveLength(21);
    expect(log.skipped.at(-1)).toEqual({ what: "requests without inference", count: 10 });
  });
});
