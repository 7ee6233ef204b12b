import { describe, expect, it } from "vitest";
import type { ApiRequest } from "./api-client.ts";
import { answerError, eventError } from "./api-error.ts";

const WALL = Date.parse("2026-03-01T10:00:00Z");
const asked = (method: ApiRequest["method"], path: string, query?: ApiRequest["query"]) => ({
  method,
  path,
  ...(query && { query }),
});

function error(request: ReturnType<typeof asked>, status: number, body: unknown = {}, retryAfter?: string) {
  const text = typeof body === "string" ? body : JSON.stringify({ kind: "Status", ...(body as object) });
  return answerError("https://k:6443", request, { status, retryAfter, body: text, wall: WALL });
}

describe("answerError", () => {
  it.each([
    [
      asked("GET", "/api/v1/namespaces/ml/pods", { watch: true }),
      "this user a Role with watch on pods in namespace ml",
    ],
    [asked("GET", "/api/v1/namespaces/ml/pods/a"), "this user a Role with get on pods in namespace ml"],
    [
      asked("PUT", "/apis/coordination.k8s.io/v1/namespaces/ml/leases/a"),
      "this user a Role with update on leases.coordination.k8s.io in namespace ml",
    ],
    [
      asked("PATCH", "/apis/a.io/v1/namespaces/ml/things/a/status"),
      "this user a Role with patch on things.a.io/status in namespace ml",
    ],
    [
      asked("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
      "this user a ClusterRole with create on tokenreviews.authentication.k8s.io",
    ],
  ])("E-127: says which right is missing: %j", (request, remedy) => {
    expect(error(request, 403, { message: "no" }).message).toBe(`no: give ${remedy}`);
  });

  it("keeps the server's own words, and makes some where it has none", () => {
    const request = asked("GET", "/apis/a.io/v1/namespaces/ml/things");
    expect(error(request, 404, { message: 'things.a.io "x" not found', reason: "NotFound" }).message).toBe(
      'things.a.io "x" not found',
    );
    expect(error(request, 404, "404 page not found\n").message).toBe(
      "https://k:6443 answered 404 to GET /apis/a.io/v1/namespaces/ml/things: 404 page not found: the server has no things.a.io; the CRD may be missing",
    );
    expect(
      error(request, 404, { message: "the server could not find the requested resource", reason: "NotFound" }).message,
    ).toContain("the CRD may be missing");
    expect(error(request, 502, "<html>Bad Gateway").message).toBe(
      "https://k:6443 answered 502 to GET /apis/a.io/v1/namespaces/ml/things",
    );
    expect(error(request, 500, "x\ny".repeat(1000)).message.length).toBeLessThan(400);
  });

  it("reads causes, and survives any shape of details", () => {
    const causes = [{ field: "spec.a", message: "must be set", reason: "x" }, null, { field: 1 }];
    expect(error(asked("PUT", "/x"), 422, { reason: "Invalid", details: { causes } })).toMatchObject({
      reason: "Invalid",
      causes: [
        { field: "spec.a", message: "must be set" },
        { field: "", message: "" },
        { field: "", message: "" },
      ],
    });
    for (const details of [null, 1, "x", [], { causes: 1 }, { retryAfterSeconds: "soon" }])
      expect(error(asked("PUT", "/x"), 422, { details })).toMatchObject({ causes: [], retryAfter: undefined });
    expect(error(asked("PUT", "/x"), 422, { details: { causes: Array(5000).fill({}) } }).causes.length).toBe(100);
  });

  it("reads Retry-After as seconds, as a date, or from the body, at most an hour", () => {
    const wait = (header?: string, body = {}) => error(asked("GET", "/x"), 429, body, header).retryAfter;
    expect(wait("3")).toBe(3000);
    expect(wait("Sun, 01 Mar 2026 10:00:05 GMT")).toBe(5000);
    expect(wait("Sun, 01 Mar 2026 09:00:00 GMT")).toBe(0);
    expect(wait("soon")).toBeUndefined();
    expect(wait("999999999")).toBe(3_600_000);
    expect(wait(undefined, { details: { retryAfterSeconds: 2 } })).toBe(2000);
    expect(wait()).toBeUndefined();
  });
});

describe("eventError", () => {
  it("tells an expired version from other errors", () => {
    const expired = eventError("pods", { kind: "Status", code: 410, reason: "Expired", message: "too old" });
    expect(expired).toMatchObject({ expired: true, message: "watch of pods: too old" });
    expect(eventError("pods", { kind: "Status", reason: "Expired" }).expired).toBe(true);
    for (const odd of [undefined, null, 5, {}, { kind: "Status" }])
      expect(eventError("pods", odd)).toMatchObject({
        expired: false,
        status: 500,
        message: "watch of pods: an error without a message",
      });
  });
});
