import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { OUTCOMES, type OutcomeReason, Rejection } from "../../base/inference/outcomes.ts";
import type { UnopenedRequest } from "../../picker/exchange/request-log.ts";
import { BODY_TIMEOUT, UPGRADE_REFUSED } from "../proxy/bad-request.ts";
import { jsonAnswer, rejectionSlug } from "../proxy/local-answer.ts";
import { fewerRefusals, firstAnswer, outcomeOfUnopened, ownHealth } from "./gateway-access.ts";

const CLIENT = { requestId: "r", answerId: () => "r" };
const CALLER = { id: "k", name: "k" } as Caller;

describe("the lines about requests that are refused at the door", () => {
  it("are one for each reason and second, with the number of those left out; other lines are all there", () => {
    const clock = new VirtualClock();
    const lines: UnopenedRequest[] = [];
    const write = fewerRefusals(clock, (request) => lines.push(request));
    for (let i = 0; i < 1000; i++) write({ reason: "key_invalid", requestId: String(i) });
    write({ reason: "key_missing" });
    for (let i = 0; i < 3; i++) write({ reason: "bad_request" });
    clock.advance(999);
    write({ reason: "key_invalid" });
    clock.advance(1);
    write({ reason: "key_invalid", requestId: "last" });
    write({ reason: "key_invalid" });
    expect(lines).toEqual([
      { reason: "key_invalid", requestId: "0" },
      { reason: "key_missing" },
      { reason: "bad_request" },
      { reason: "bad_request" },
      { reason: "bad_request" },
      { reason: "key_invalid", requestId: "last", suppressed: 1000 },
    ]);
  });
});

it("a request without a valid key or token is unauthorized, and none that breaks HTTP or asks for a closed path is", () => {
  const unauthorized = ["key_missing", "key_invalid", "key_expired", "key_revoked", "token_unverifiable"];
  const others = (Object.keys(OUTCOMES) as OutcomeReason[]).filter((reason) => !unauthorized.includes(reason));
  const outcome = (reason: string) => outcomeOfUnopened(rejectionSlug(new Rejection(reason as OutcomeReason, "no")));
  expect(new Set(unauthorized.map(outcome))).toEqual(new Set(["unauthorized"]));
  expect(outcome("internal")).toBe("error");
  expect(new Set(others.filter((reason) => reason !== "internal").map(outcome))).toEqual(new Set(["bad-request"]));
  for (const { slug } of [UPGRADE_REFUSED, BODY_TIMEOUT]) expect(outcomeOfUnopened(slug)).toBe("bad-request");
});

describe("the health check of a stranger", () => {
  it("is answered by the state of the gateway; with a key, it goes on", () => {
    let ready = true;
    const health = ownHealth(() => ready);
    const head = { method: "GET", path: "/health" };
    expect(health(head, CLIENT)).toMatchObject({ status: 200, body: Buffer.from('{"status":"ok"}') });
    ready = false;
    expect(health(head, CLIENT)).toMatchObject({ status: 503, body: Buffer.from('{"status":"not ready"}') });
    expect(health(head, CLIENT, CALLER)).toBeUndefined();
    expect(health({ method: "GET", path: "/v1/models" }, CLIENT)).toBeUndefined();
  });
});

it("the first of several that answers is heard", () => {
  const one = jsonAnswer({ n: 1 }, "r");
  const two = jsonAnswer({ n: 2 }, "r");
  const asked = firstAnswer(
    undefined,
    ({ path }) => (path === "/1" ? one : undefined),
    () => two,
  );
  expect([asked({ method: "GET", path: "/1" }, CLIENT), asked({ method: "GET", path: "/2" }, CLIENT)]).toEqual([
    one,
    two,
  ]);
  expect(firstAnswer()({ method: "GET", path: "/" }, CLIENT)).toBeUndefined();
});
