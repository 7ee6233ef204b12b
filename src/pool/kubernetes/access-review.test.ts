import { describe, expect, it } from "vitest";
import { FakeServer, refusal } from "../../../test/support/kubernetes/fake-api.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { AccessReview, ExpiringMap } from "./access-review.ts";
import type { ApiRequest } from "./api-client.ts";

interface Body {
  readonly spec: Record<string, unknown> & { readonly token?: string; readonly user?: string };
}

function setUp() {
  const state = { allowed: true, away: false };
  const clock = new VirtualClock();
  const api = new FakeServer(({ path, body }: ApiRequest) => {
    if (state.away) throw refusal(0, "", { message: "it cannot be reached" });
    const { spec } = body as Body;
    if (path.endsWith("/tokenreviews"))
      return spec.token?.startsWith("good")
        ? {
            status: {
              authenticated: true,
              user: { username: spec.token, uid: "1", groups: ["g"], extra: { k: ["v"] } },
            },
          }
        : { status: { authenticated: false, error: "[invalid bearer token]" } };
    return { status: state.allowed ? { allowed: true } : { allowed: false, reason: "no" } };
  });
  return { state, clock, api, review: new AccessReview({ api, clock }) };
}

describe("AccessReview", () => {
  it("R-60 E-127: asks a TokenReview who it is and a SubjectAccessReview whether they may", async () => {
    const { api, review, state } = setUp();
    const user = await review.authenticate("good");
    expect(user).toEqual({ username: "good", uid: "1", groups: ["g"], extra: { k: ["v"] } });
    expect(await review.authorize(user!, "get", "/metrics")).toBe(true);
    state.allowed = false;
    expect(await review.authorize(user!, "get", "/debug")).toBe(false);
    expect(await review.authenticate("bad")).toBeUndefined();
    expect(api.requests.slice(0, 2).map(({ method, path, body }) => [method, path, body])).toEqual([
      [
        "POST",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        { apiVersion: "authentication.k8s.io/v1", kind: "TokenReview", spec: { token: "good" } },
      ],
      [
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
          apiVersion: "authorization.k8s.io/v1",
          kind: "SubjectAccessReview",
          spec: {
            user: "good",
            uid: "1",
            groups: ["g"],
            extra: { k: ["v"] },
            nonResourceAttributes: { path: "/metrics", verb: "get" },
          },
        },
      ],
    ]);
  });

  it("E-127: an answer counts, yes for 60 s and no for 10 s", async () => {
    const { api, clock, review, state } = setUp();
    const user = (await review.authenticate("good"))!;
    await review.authenticate("bad");
    state.allowed = false;
    expect(await review.authorize(user, "get", "/metrics")).toBe(false);
    const asked = () => api.requests.splice(0).length;
    expect(asked()).toBe(3);
    clock.advance(9_999);
    await review.authenticate("good");
    await review.authenticate("bad");
    await review.authorize(user, "get", "/metrics");
    expect(asked()).toBe(0);
    state.allowed = true;
    clock.advance(1);
    await review.authenticate("good");
    await review.authenticate("bad");
    expect(await review.authorize(user, "get", "/metrics")).toBe(true);
    expect(asked()).toBe(2);
    clock.advance(50_000);
    await review.authenticate("good");
    await review.authorize(user, "get", "/metrics");
    expect(asked()).toBe(1);
    clock.advance(10_000);
    expect(await review.authorize(user, "get", "/metrics")).toBe(true);
    expect(asked()).toBe(1);
  });

  it("E-127: lets nobody in while the API server cannot tell, and asks again", async () => {
    const { review, state } = setUp();
    state.away = true;
    await expect(review.authenticate("good")).rejects.toMatchObject({ code: "KUBERNETES_API", status: 0 });
    await expect(review.authorize({ username: "a" }, "get", "/metrics")).rejects.toMatchObject({ status: 0 });
    state.away = false;
    expect(await review.authenticate("good")).toBeDefined();
  });

  it("an answer without a status, or a user without a name, lets nobody in", async () => {
    const clock = new VirtualClock();
    const nothing = new AccessReview({ api: new FakeServer(() => ({})), clock });
    await expect(nothing.authenticate("t")).rejects.toThrow("without a status");
    const nameless = new AccessReview({
      api: new FakeServer(() => ({ status: { authenticated: true, user: {} } })),
      clock,
    });
    expect(await nameless.authenticate("t")).toBeUndefined();
    const both = new AccessReview({ api: new FakeServer(() => ({ status: { allowed: true, denied: true } })), clock });
    expect(await both.authorize({ username: "a" }, "get", "/")).toBe(false);
  });

  it("asks nobody about no token or an enormous one", async () => {
    const { api, review } = setUp();
    expect(await review.authenticate("")).toBeUndefined();
    expect(await review.authenticate(`good${"x".repeat(20_000)}`)).toBeUndefined();
    expect(api.requests).toEqual([]);
  });

  it("asks once for callers at the same time, and about 64 of them at a time (bound)", async () => {
    const waiting: ((value: unknown) => void)[] = [];
    const api = new FakeServer(() => new Promise((resolve) => waiting.push(resolve)));
    const review = new AccessReview({ api, clock: new VirtualClock() });
    const same = [review.authenticate("t"), review.authenticate("t")];
    expect(api.requests.length).toBe(1);
    const others = Array.from({ length: 63 }, (_, i) => review.authenticate(`t${i}`));
    await expect(review.authenticate("one more")).rejects.toMatchObject({ code: "ACCESS_REVIEW_BUSY" });
    for (const resolve of waiting) resolve({ status: { authenticated: true, user: { username: "u" } } });
    expect(await Promise.all([...same, ...others])).toHaveLength(65);
    expect(await review.authenticate("t")).toEqual({ username: "u" });
  });
});

describe("ExpiringMap", () => {
  it("keeps so many keys, those used last (bound)", () => {
    const map = new ExpiringMap<number>(3);
    for (let i = 0; i < 3; i++) map.set(`${i}`, i, 100);
    map.get("0", 0);
    map.set("3", 3, 100);
    expect(["0", "1", "2", "3"].map((key) => map.get(key, 0))).toEqual([0, undefined, 2, 3]);
    for (let i = 0; i < 1000; i++) map.set(`more ${i}`, i, 100);
    expect(map.size).toBe(3);
    expect(map.get("more 999", 100)).toBeUndefined();
    expect(map.size).toBe(2);
  });
});
