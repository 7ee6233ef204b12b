import { afterEach, describe, expect, it } from "vitest";
import { EMPTY_VIEWS } from "../../../test/support/admin-port.ts";
import {
  type PolicyRule,
  startStandIn,
  type TestApiServer,
  type TestUser,
} from "../../../test/support/apiserver/index.ts";
import { ask } from "../../../test/support/client.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { AccessReview, type ReviewedUser } from "../../pool/kubernetes/access-review.ts";
import { HttpApiClient } from "../../pool/kubernetes/http-client.ts";
import { type AdminServer, startAdmin } from "../../wires/admin/server.ts";
import { type AccessReviews, metricsAuthorization } from "./metrics-authorization.ts";

const PROMETHEUS: ReviewedUser = { username: "system:serviceaccount:monitoring:prometheus" };
const GUARDED = [
  "/metrics",
  "/debug/endpoints",
  "/debug/decisions/1",
  "/debug/pprof/heap",
  "/",
  "/debug/feed/stream",
  "/nothing",
];
const TOKEN = "tokenreviews.authentication.k8s.io";
const ACCESS = "subjectaccessreviews.authorization.k8s.io";

/** The guard with an API server that knows the token `good`, whose owner may do what `allowed` lists as `verb path`. */
function guard(allowed: readonly string[] = ["get /metrics"], fails: Partial<AccessReviews> = {}) {
  const logged: string[] = [];
  const asked: string[] = [];
  const reviews: AccessReviews = {
    async authenticate(token) {
      asked.push(token);
      return token === "good" ? PROMETHEUS : undefined;
    },
    authorize: async (user, verb, path) => user === PROMETHEUS && allowed.includes(`${verb} ${path}`),
    ...fails,
  };
  const authorize = metricsAuthorization(reviews, {
    log: (_, key, fields) => logged.push(`${key} ${fields.cause}`) > 0,
  });
  const ask = (path: string, authorization?: string, method = "GET") =>
    authorize({ peer: "127.0.0.1", method, path, authorization });
  return { ask, asked, logged };
}

const away = async (): Promise<never> => {
  throw new Error("https://10.0.0.1: connect ECONNREFUSED");
};

describe("who may read the metrics port (E-127, R-60)", () => {
  it.each(GUARDED)("401 for %s without a token, from this machine too", async (path) => {
    const { ask, asked } = guard();
    expect(await ask(path)).toEqual({ status: 401, message: expect.stringMatching(/^Unauthorized: send .*Bearer/) });
    expect(asked).toEqual([]);
  });

  it.each(["Basic good", "Bearer", "Bearer  ", "good", "Bearer two words", "", "xBearer good"])(
    "401 for %j, which is no bearer token",
    async (authorization) => {
      const { ask, asked } = guard();
      expect(await ask("/metrics", authorization)).toMatchObject({ status: 401 });
      expect(asked).toEqual([]);
    },
  );

  it("401 for a token that the API server does not know", async () => {
    expect(await guard().ask("/metrics", "Bearer bad")).toEqual({
      status: 401,
      message: "Unauthorized: the API server does not accept this token",
    });
  });

  it("403 for somebody without the permission, with the rule that is missing", async () => {
    const { ask } = guard();
    expect(await ask("/debug/endpoints", "Bearer good")).toEqual({
      status: 403,
      message:
        "Authorization denied for user system:serviceaccount:monitoring:prometheus: bind the user to a ClusterRole with the rule " +
        '{nonResourceURLs: ["/debug/endpoints"], verbs: [get]}',
    });
    expect(await ask("/metrics", "Bearer good", "POST")).toMatchObject({
      status: 403,
      message: expect.stringContaining("verbs: [post]"),
    });
  });

  it.each(["Bearer good", "bearer good", "BEARER   good "])("200 with the permission: %j", async (authorization) => {
    expect(await guard().ask("/metrics", authorization)).toBeUndefined();
  });

  it.each(GUARDED)("permits %s by itself, not with another path", async (path) => {
    const { ask } = guard([`get ${path}`]);
    for (const other of GUARDED) {
      const verdict = await ask(other, "Bearer good");
      if (other === path) expect(verdict).toBeUndefined();
      else expect(verdict).toMatchObject({ status: 403 });
    }
  });

  it.each(["/healthz", "/ready"])("asks nobody who they are at %s", async (path) => {
    expect(await guard([], { authenticate: away }).ask(path)).toBeUndefined();
  });

  it("500 while the API server cannot be asked who it is; only the log tells why", async () => {
    const { ask, logged } = guard(undefined, { authenticate: away });
    expect(await ask("/metrics", "Bearer good")).toEqual({
      status: 500,
      message: `Authentication failed: the ClusterRole of this process needs the verb create on ${TOKEN}, and the API server has to answer`,
    });
    expect(logged).toEqual([`${TOKEN} https://10.0.0.1: connect ECONNREFUSED`]);
  });

  it("500 while the API server cannot be asked what they may do", async () => {
    const { ask, logged } = guard(undefined, { authorize: away });
    expect(await ask("/metrics", "Bearer good")).toEqual({
      status: 500,
      message: expect.stringMatching(
        /^Authorization for user system:serviceaccount:monitoring:prometheus failed: .*subjectaccessreviews/,
      ),
    });
    expect(logged).toEqual([`${ACCESS} https://10.0.0.1: connect ECONNREFUSED`]);
  });
});

describe("the metrics port of a cluster (E-127, R-60)", () => {
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  const reads = (...nonResourceURLs: string[]): readonly PolicyRule[] => [{ verbs: ["get"], nonResourceURLs }];
  const USERS: Readonly<Record<string, TestUser>> = {
    ours: {
      name: "system:serviceaccount:default:epp",
      rules: [
        { verbs: ["create"], apiGroups: ["authentication.k8s.io"], resources: ["tokenreviews"] },
        { verbs: ["create"], apiGroups: ["authorization.k8s.io"], resources: ["subjectaccessreviews"] },
      ],
    },
    powerless: { name: "system:serviceaccount:default:default" },
    scraper: { name: "prometheus", rules: reads("/metrics") },
    operator: { name: "operator", rules: reads("/metrics", "/debug/*", "/") },
    nobody: { name: "nobody" },
  };

  /** An admin server that asks an API server with somebody's token. */
  async function start(
    as = "ours",
  ): Promise<{ get(path: string, token?: string): Promise<string>; api: TestApiServer }> {
    const api = await startStandIn({ users: USERS });
    closing.push(() => api.close());
    const clock = new VirtualClock();
    const credentials = { ca: api.ca, insecureSkipVerify: false, token: async () => as };
    const client = new HttpApiClient({ server: api.url, credentials, clock });
    closing.push(() => client.close());
    const admin: AdminServer = await startAdmin({
      host: "127.0.0.1",
      port: 0,
      clock,
      views: { ...EMPTY_VIEWS, metrics: () => "things_total 7\n" },
      authorize: metricsAuthorization(new AccessReview({ api: client, clock }), { log: () => true }),
    });
    closing.push(() => admin.close());
    return {
      api,
      async get(path, token) {
        const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
        const { status, text } = await ask(`http://127.0.0.1:${admin.port}${path}`, { headers });
        return `${status} ${text.split("\n")[0]}`;
      },
    };
  }

  it("answers those who may, and says to others what they lack", async () => {
    const { get } = await start();
    expect(await get("/metrics", "scraper")).toBe("200 things_total 7");
    expect(await get("/debug/decisions", "operator")).toBe("200 []");
    expect(await get("/", "operator")).toMatch(/^200 <!doctype html>/i);
    expect(await get("/debug/decisions", "scraper")).toMatch(/^403 Authorization denied for user prometheus: /);
    expect(await get("/", "scraper")).toMatch(/^403 /);
    expect(await get("/metrics", "nobody")).toMatch(/^403 .*nonResourceURLs: \["\/metrics"\], verbs: \[get\]/);
    expect(await get("/metrics", "forged")).toMatch(/^401 Unauthorized: /);
    expect(await get("/metrics")).toMatch(/^401 Unauthorized: /);
    expect(await get("/debug/decisions")).toMatch(/^401 Unauthorized: /);
    expect([await get("/healthz"), await get("/ready")]).toEqual(["200 ok", "200 ready"]);
  });

  it("answers nobody while it may not ask, or cannot", async () => {
    const { get } = await start("powerless");
    expect(await get("/metrics", "scraper")).toMatch(/^500 Authentication failed: .*tokenreviews/);
    const other = await start();
    await other.api.down();
    expect(await other.get("/metrics", "scraper")).toMatch(/^500 Authentication failed: /);
    await other.api.up();
    expect(await other.get("/metrics", "scraper")).toBe("200 things_total 7");
  });
});
