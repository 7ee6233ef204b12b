import { describe, expect, it } from "vitest";
import { type Faults, type Outcome, verdict } from "./day-verdict.ts";

const GOOD: Outcome = {
  ...{ caller: "steady", model: "alpha", kind: "chat", stream: false, start: 100, end: 200, status: 200 },
  ...{ headers: { "x-inference-pod": "a0" }, problem: "", text: "" },
};
const refusal = (status: number, error: object, headers: Outcome["headers"] = {}): Outcome => ({
  ...{ ...GOOD, status, headers, problem: `status ${status} ` },
  text: JSON.stringify({ error }),
});
const faults = (more: Partial<Faults> = {}): Faults => ({
  ...{ kills: [], absences: [], limited: new Map([["steady", "requests"]]), ends: new Map(), steered: [] },
  ...more,
});

const BROKEN: Outcome = { ...GOOD, stream: true, problem: "a stream without its end" };
const KILLED = faults({ kills: [{ server: "a0", from: 150, gone: 160 }] });
const ENDED = refusal(401, { code: "invalid_api_key", message: "the key `steady` has expired" });
const ENDS = faults({ ends: new Map([["steady", { from: 150, until: 180, words: /has expired/ }]]) });
const LIMIT = refusal(429, { code: "rate_limit_exceeded", type: "requests" }, { "retry-after-ms": "12" });
const ABSENT = refusal(503, { code: "overloaded" }, { "retry-after": "5" });
const ABSENCE = faults({ absences: [{ model: "alpha", from: 150, until: 160 }] });
const STEERED = faults({ steered: [{ server: "a0", from: 90, until: 210 }] });

describe("the verdict about an outcome is", () => {
  it.each<[string, Outcome, Faults]>([
    ["answered", GOOD, faults()],
    ["answered", { ...GOOD, status: 0, kind: "broken upload" }, faults()],
    ["answered", { ...GOOD, headers: { "x-inference-pod": "a1" } }, STEERED],
    ["a stream of a killed server", BROKEN, KILLED],
    ["the key has ended", ENDED, ENDS],
    ["above the limit", LIMIT, faults()],
    ["no server of the model", ABSENT, ABSENCE],
  ])("%s", (cause, outcome, done) => {
    expect(verdict(outcome, done)).toBe(cause);
  });

  it.each<[string, Outcome, Faults]>([
    ["an answer after the end of the key", { ...GOOD, start: 181 }, ENDS],
    ["an answer of a server that the picker leaves out", GOOD, STEERED],
    ["a wrong answer", { ...GOOD, problem: "the answer is not of alpha" }, faults()],
    ["a connection that broke", { ...GOOD, status: 0, problem: "ECONNRESET" }, KILLED],
    ["a stream that broke before the kill", { ...BROKEN, end: 149 }, KILLED],
    ["a stream that began after the kill", { ...BROKEN, start: 161 }, KILLED],
    ["a stream of another server", { ...BROKEN, headers: { "x-inference-pod": "a1" } }, KILLED],
    ["a broken answer that is no stream, which could be retried", { ...BROKEN, stream: false }, KILLED],
    ["a refused key before its end", { ...ENDED, end: 149 }, ENDS],
    ["a refused key that never ends", ENDED, faults()],
    ["a key refused for another reason", refusal(401, { code: "invalid_api_key", message: "unknown key" }), ENDS],
    ["a limit of a caller who has none", { ...LIMIT, caller: "late" }, faults()],
    ["a limit of another kind", refusal(429, { code: "rate_limit_exceeded", type: "tokens" }, LIMIT.headers), faults()],
    ["a limit that does not say how long to wait", { ...LIMIT, headers: {} }, faults()],
    ["a server missing before it was ended", { ...ABSENT, end: 149 }, ABSENCE],
    ["a server missing after its return", { ...ABSENT, start: 161 }, ABSENCE],
    ["a server missing for another model", { ...ABSENT, model: "beta" }, ABSENCE],
    ["a missing server without a time to wait", { ...ABSENT, headers: {} }, ABSENCE],
    ["another error", refusal(502, { code: "upstream" }), KILLED],
  ])("a fault: %s", (_, outcome, done) => {
    expect(verdict(outcome, done)).toBeUndefined();
  });

  it("undecided in favour of the gateway while a span ends", () => {
    expect(verdict({ ...GOOD, start: 170, end: 190 }, ENDS)).toBe("answered");
    expect(verdict({ ...GOOD, end: 211 }, STEERED)).toBe("answered");
    expect(verdict({ ...GOOD, start: 89 }, STEERED)).toBe("answered");
  });
});
