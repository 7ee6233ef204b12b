import { describe, expect, it } from "vitest";
import type { ServerFacts } from "../../lab/check/server-facts.ts";
import { CHECKS, findingsOf } from "./checks.ts";
import type {
  EndpointFacts,
  FileFacts,
  InstallationFacts,
  KeysFacts,
  LimitsFacts,
  RedisFacts,
  RunningFacts,
} from "./facts.ts";
import { exitStatus, type Level } from "./finding.ts";
import { reportJson, reportText } from "./report.ts";

const NOW = Date.parse("2027-01-01T00:00:00Z");
const DAY = 86_400_000;

const endpoint = (name: string, more: Partial<EndpointFacts> = {}): EndpointFacts => ({
  ...{ id: `default/${name}`, hostPort: `${name}:8000`, scheme: undefined, cause: "metrics page read", sinceMs: 5000 },
  ...{ state: "up", models: ["m"], inFlight: 1, waiting: 0, running: 1, capacity: 8, kvUsage: 0.1 },
  ...{ blockSize: 16, blocks: 1000, ageMs: 50, fresh: true },
  ...more,
});
const server = (more: Partial<ServerFacts> = {}): ServerFacts => ({
  ...{ origin: "http://a:8000", problem: undefined, engine: "vllm", version: "0.11.0", isSimulator: false },
  ...{ models: ["m"], adapters: [], modelsProblem: undefined, missing: [], metricsProblem: undefined },
  ...{ blockSize: 16, blocks: 100, prefixCaching: true, skew: { ms: 10, error: 500 } },
  ...more,
});
const RUNNING: RunningFacts = {
  ...{ version: "1.0.0", ready: true, because: undefined, skew: { ms: 0, error: 500 } },
  endpoints: [endpoint("a"), endpoint("b")],
  flowControl: false,
  plugins: new Set(["queue-scorer", "kv-cache-utilization-scorer"]),
  gauges: {
    ...{ startedAt: NOW / 1000 - 3600, openFiles: 30, maxFiles: 1000, memory: 1e8, eventLoopLag: 0.01 },
    ...{ bodyBytes: 0, bodyLimit: 1e6, bodiesPaused: 0, fileRefused: 0, fileRestartKeys: 0, fileReloads: 0 },
    ...{ saturation: 0.1, queued: 0 },
  },
};
const FILE: FileFacts = {
  ...{ path: "gateway.yaml", problem: undefined, changedAt: NOW - DAY, endpoints: ["a:8000", "b:8000"] },
  ...{ certificates: [], keys: undefined, limits: undefined, redis: undefined },
};
const HEALTHY: InstallationFacts = {
  ...{ now: NOW, cli: "1.0.0", admin: "http://127.0.0.1:19001", running: RUNNING, file: FILE },
  servers: new Map([
    ["a:8000", server()],
    ["b:8000", server()],
  ]),
};

const REDIS: RedisFacts = {
  ...{ server: "redis:6379", problem: undefined, skew: undefined, version: "Redis 7.2.4", latency: 0.4 },
  memory: { policy: "noeviction", limit: 0, used: 1e6 },
};
const LIMITS: LimitsFacts = {
  ...{ path: "limits.yaml", problem: undefined, rules: 2, keyNames: ["team-a"], otherRedis: false },
};
const KEYS: KeysFacts = {
  ...{ path: "keys.yaml", problem: undefined, mode: 0o100600, tokens: false },
  keys: [{ name: "team-b", expires: undefined }],
};

const running = (more: Partial<RunningFacts>): Partial<InstallationFacts> => ({ running: { ...RUNNING, ...more } });
const endpoints = (...list: EndpointFacts[]): Partial<InstallationFacts> => ({
  ...running({ endpoints: list }),
  file: undefined,
});
const gauges = (more: RunningFacts["gauges"]): Partial<InstallationFacts> =>
  running({ gauges: { ...RUNNING.gauges, ...more } });
const file = (more: Partial<FileFacts>): Partial<InstallationFacts> => ({ file: { ...FILE, ...more } });
const certificate = (ends: number, problem?: string): Partial<InstallationFacts> =>
  file({ certificates: [{ path: "tls.crt", problem, ends }] });
const keys = (mode: number, expires?: number, problem?: string): Partial<InstallationFacts> =>
  file({ keys: { path: "keys.yaml", problem, mode, tokens: false, keys: [{ name: "team-a", expires }] } });
const redis = (more: Partial<RedisFacts>): Partial<InstallationFacts> => ({
  ...file({ redis: { ...REDIS, ...more } }),
  ...gauges({ limitsShared: 1 }),
});
const limits = (more: Partial<LimitsFacts>, withKeys?: KeysFacts): Partial<InstallationFacts> =>
  file({ limits: { ...LIMITS, ...more }, keys: withKeys });
const without = (...names: (keyof RunningFacts["gauges"])[]): RunningFacts["gauges"] =>
  Object.fromEntries(Object.entries(RUNNING.gauges).filter(([name]) => !names.includes(name as never)));

/** What differs from a healthy installation; the check that must tell, how bad it is, and what it says. */
const CASES: readonly (readonly [string, Partial<InstallationFacts>, string, Level, RegExp])[] = [
  ["no admin port", { running: "no process listens" }, "admin", "fail", /no process listens/],
  ["an older gateway", running({ version: "0.9.0" }), "version", "warn", /gateway has 0.9.0, this command has 1.0.0/],
  ["a gateway without version", running({ version: undefined }), "version", "warn", /unknown version/],
  ["not ready", running({ ready: false, because: "no pool" }), "ready", "fail", /not ready: no pool/],
  ["no endpoint", endpoints(), "endpoints", "fail", /has no endpoint: the gateway answers 503$/],
  [
    "no endpoint, and flow control",
    { ...running({ endpoints: [], flowControl: true }), file: undefined },
    ...(["endpoints", "fail", /has no endpoint: requests wait in flow control for the first endpoint$/] as const),
  ],
  [
    "an endpoint down",
    endpoints(endpoint("a"), endpoint("b", { state: "down", cause: "refused", sinceMs: 180_000 })),
    ...([
      "endpoints",
      "fail",
      /default\/b \(b:8000\) is down for 3 min: refused; requests go to the endpoints that are not down$/,
    ] as const),
  ],
  [
    "all endpoints down",
    endpoints(endpoint("a", { state: "down", cause: "refused" })),
    ...(["endpoints", "fail", /refused; all are down: the gateway tries them and answers 503$/] as const),
  ],
  [
    "all endpoints down, and flow control",
    { ...running({ endpoints: [endpoint("a", { state: "down" })], flowControl: true }), file: undefined },
    ...(["endpoints", "fail", /; all are down: a request waits in flow control, or the gateway tries them/] as const),
  ],
  [
    "an endpoint blind",
    endpoints(endpoint("a"), endpoint("b", { state: "blind", cause: "404" })),
    ...(["endpoints", "warn", /b is|default\/b .* is blind/] as const),
  ],
  [
    "a model down",
    endpoints(endpoint("a"), endpoint("b"), endpoint("c", { state: "down", models: ["other"] })),
    ...(["models", "fail", /no server of other is up/] as const),
  ],
  [
    "a model on one server",
    endpoints(endpoint("a"), endpoint("b", { models: ["other"] })),
    ...(["models", "warn", /only one server serves each of m and other/] as const),
  ],
  [
    "a model whose second server is down",
    endpoints(endpoint("a"), endpoint("b", { state: "down" })),
    ...(["models", "warn", /only one server serves m/] as const),
  ],
  ["unknown models", endpoints(endpoint("a", { models: undefined })), "models", "warn", /no endpoint lists/],
  [
    "old metrics",
    endpoints(endpoint("a"), endpoint("b", { fresh: false, ageMs: 30_000 })),
    ...(["metrics", "warn", /default\/b \(30 s\) are old/] as const),
  ],
  [
    "metrics never read",
    endpoints(endpoint("a"), endpoint("b", { fresh: false, ageMs: null })),
    ...(["metrics", "warn", /never read/] as const),
  ],
  [
    "no queue on the page",
    endpoints(endpoint("a"), endpoint("b", { waiting: null })),
    ...(["metrics", "warn", /default\/b does not show .*waiting requests, which queue-scorer reads/] as const),
  ],
  [
    "no KV usage on the page",
    endpoints(endpoint("a", { kvUsage: null }), endpoint("b")),
    ...(["metrics", "warn", /KV cache, which kv-cache-utilization-scorer reads/] as const),
  ],
  [
    "a full KV cache",
    endpoints(endpoint("a", { kvUsage: 0.97 }), endpoint("b")),
    ...(["load", "warn", /default\/a \(97 %\)/] as const),
  ],
  [
    "requests wait everywhere",
    endpoints(endpoint("a", { waiting: 3 }), endpoint("b", { waiting: 4 })),
    ...(["load", "warn", /default\/a \(3 wait, 1 run\) and default\/b \(4 wait, 1 run\)/] as const),
  ],
  [
    "a long queue at one endpoint",
    endpoints(endpoint("a", { waiting: 5, running: 8 }), endpoint("b")),
    ...(["load", "warn", /wait at default\/a \(5 wait, 8 run\), but other endpoints have room/] as const),
  ],
  ["a saturated pool", gauges({ saturation: 1 }), "load", "warn", /the pool is saturated \(100 %\)/],
  ["a pool near its limit", gauges({ saturation: 0.95 }), "load", "warn", /nearly saturated \(95 %\)/],
  ["requests in the queue", gauges({ queued: 3 }), "load", "warn", /3 requests wait in the gateway/],
  ["no file descriptors left", gauges({ openFiles: 990 }), "headroom", "fail", /990 of 1,000 file descriptors/],
  ["bodies wait", gauges({ bodiesPaused: 2 }), "headroom", "warn", /2 request bodies wait for memory/],
  ["bodies nearly fill memory", gauges({ bodyBytes: 950_000 }), "headroom", "warn", /95 % of their byte budget/],
  ["a slow event loop", gauges({ eventLoopLag: 0.4 }), "headroom", "warn", /was blocked for 400 ms/],
  [
    "a server that only the gateway reaches",
    { servers: new Map([["a:8000", server({ problem: "timed out" })]]) },
    ...(["servers", "warn", /this machine gets no answer from a:8000 \(timed out\)/] as const),
  ],
  [
    "a server whose certificate is not in order",
    { servers: new Map([["a:8000", server({ problem: "TLS: self-signed certificate" })]]) },
    ...(["servers", "warn", /TLS fails with a:8000 \(TLS: self-signed certificate\)/] as const),
  ],
  [
    "servers that could not be asked",
    { servers: undefined, unasked: { because: "server.key: EACCES", todo: "run it as another user" } },
    ...(["servers", "warn", /were not checked: server.key: EACCES/] as const),
  ],
  [
    "two versions of one model",
    {
      servers: new Map([
        ["a:8000", server()],
        ["b:8000", server({ version: "0.12.1" })],
      ]),
    },
    ...(["versions", "warn", /servers of m differ: vllm 0.11.0 on default\/a; vllm 0.12.1 on default\/b/] as const),
  ],
  ["the gateway's clock", running({ skew: { ms: -60_000, error: 500 } }), "clocks", "warn", /the gateway \(-60 s\)/],
  [
    "a server's clock",
    { servers: new Map([["a:8000", server({ skew: { ms: 5000, error: 600 } })]]) },
    ...(["clocks", "warn", /a:8000 \(\+5 s\)/] as const),
  ],
  [
    "the clock of Redis",
    redis({ skew: { ms: 90_000, error: 500 } }),
    ...(["clocks", "warn", /Redis redis:6379/] as const),
  ],
  ["a broken file", file({ problem: "unknown key" }), "config", "fail", /gateway.yaml cannot be used: unknown key/],
  ["a refused file", gauges({ fileRefused: 1 }), "config", "fail", /refused the changed gateway file/],
  ["a refused picker configuration", gauges({ configRefused: 1 }), "config", "fail", /picker configuration/],
  ["refused limits", gauges({ limitsRefused: 1 }), "config", "fail", /refused the changed limits/],
  ["keys for a restart", gauges({ fileRestartKeys: 2 }), "config", "warn", /2 changed keys .* next start/],
  [
    "a change nobody read",
    file({ changedAt: NOW - 60_000 }),
    "config",
    "warn",
    /changed 60 s ago, but .* not read the change/,
  ],
  ["a gateway without file", running({ gauges: without("fileReloads") }), "config", "warn", /without --config/],
  [
    "other endpoints",
    file({ endpoints: ["a:8000", "c:8000"] }),
    "config",
    "warn",
    /differ in these endpoints: c:8000 and b:8000/,
  ],
  ["a certificate that ended", certificate(NOW - DAY), "certificates", "fail", /tls.crt expired 24 h ago/],
  ["a certificate that ends tomorrow", certificate(NOW + DAY), "certificates", "fail", /tls.crt expires in 24 h/],
  ["a certificate that ends next week", certificate(NOW + 7 * DAY), "certificates", "warn", /expires in 7 days/],
  ["an unreadable certificate", certificate(Number.NaN, "EACCES"), "certificates", "warn", /cannot be read: EACCES/],
  ["keys for all to change", keys(0o100666), "keys", "fail", /mode 666: others can add keys/],
  ["keys for the group to change", keys(0o100620), "keys", "fail", /mode 620/],
  ["keys for all to read", keys(0o100644), "keys", "warn", /mode 644: others can read/],
  ["an expired key", keys(0o100600, NOW - 1), "keys", "warn", /team-a \(expired\)/],
  ["a key that ends", keys(0o100600, NOW + 3 * DAY), "keys", "warn", /team-a \(in 3 days\)/],
  ["a broken keys file", keys(0o100600, undefined, "not YAML"), "keys", "fail", /keys.yaml cannot be used: not YAML/],
  ["Redis away from the gateway", gauges({ limitsShared: 0 }), "redis", "fail", /does not reach Redis/],
  [
    "Redis away from here",
    redis({ problem: "refused" }),
    ...(["redis", "warn", /redis:6379 cannot be used from this machine: refused/] as const),
  ],
  ["Redis that the gateway does not use", file({ redis: REDIS }), "redis", "warn", /the gateway shares no limits/],
  ["a slow Redis", redis({ latency: 150 }), "redis", "warn", /answers in 150 ms/],
  [
    "Redis that forgets counts",
    redis({ memory: { policy: "allkeys-lru", limit: 64 * 2 ** 20, used: 0 } }),
    ...(["redis", "warn", /policy allkeys-lru: above 64 MiB, Redis drops counts/] as const),
  ],
  [
    "Redis that may forget counts",
    redis({ memory: { policy: "volatile-ttl", limit: 0, used: 0 } }),
    ...(["redis", "warn", /volatile-ttl: once maxmemory is set, Redis drops counts/] as const),
  ],
  [
    "a full Redis",
    redis({ memory: { policy: "noeviction", limit: 100 * 2 ** 20, used: 95 * 2 ** 20 } }),
    ...(["redis", "warn", /uses 95 of 100 MiB/] as const),
  ],
  ["broken limits", limits({ problem: "not YAML" }), "limits", "fail", /limits.yaml cannot be used: not YAML/],
  ["limits without a rule", limits({ rules: 0, keyNames: [] }), "limits", "warn", /has no rule/],
  ["limits of a key that nobody has", limits({}, KEYS), "limits", "warn", /have no effect: no key has the name team-a/],
  [
    "two Redis servers",
    limits({ otherRedis: true }),
    "limits",
    "warn",
    /names a Redis, but the gateway uses another Redis: limits.redis/,
  ],
];

describe("findingsOf", () => {
  it("has nothing to say against a healthy installation", () => {
    const findings = findingsOf(HEALTHY);
    expect(findings.filter(({ level }) => level !== "ok")).toEqual([]);
    expect(findings.map(({ check }) => check)).toEqual([
      ...["admin", "version", "ready", "endpoints", "models", "metrics", "load", "headroom", "servers", "versions"],
      ...["clocks", "config"],
    ]);
    expect(exitStatus(findings)).toBe(0);
  });

  it.each(CASES)("tells of %s", (_name, change, check, level, says) => {
    const findings = findingsOf({ ...HEALTHY, ...change });
    const found = findings.find((finding) => finding.check === check && finding.level !== "ok");
    expect(found).toMatchObject({ level, says: expect.stringMatching(says) });
    // Whoever reads that something is wrong also reads what to do.
    expect(found!.todo!.length).toBeGreaterThan(5);
    expect(exitStatus(findings)).toBe(findings.some((finding) => finding.level === "fail") ? 1 : 0);
    if (level === "fail") expect(exitStatus(findings)).toBe(1);
  });

  it("has a case for every check", () => {
    expect(new Set(CASES.map(([, , check]) => check))).toEqual(new Set(Object.keys(CHECKS)));
  });

  it("keeps silent about what is as it should be", () => {
    const silent = (change: Partial<InstallationFacts>, check: string): void => {
      const levels = findingsOf({ ...HEALTHY, ...change }).flatMap((finding) =>
        finding.check === check ? [finding.level] : [],
      );
      expect(levels.filter((level) => level !== "ok")).toEqual([]);
    };
    silent(
      running({ plugins: new Set(["prefix-cache-scorer"]), endpoints: [endpoint("a", { waiting: null })] }),
      "metrics",
    );
    silent(endpoints(endpoint("a"), endpoint("b", { models: undefined })), "models");
    silent({ servers: new Map([["a:8000", server({ skew: { ms: 2400, error: 500 } })]]) }, "clocks");
    silent({ ...file({ changedAt: NOW - 1000 }) }, "config");
    silent(certificate(NOW + 15 * DAY), "certificates");
    silent(keys(0o100600, NOW + 15 * DAY), "keys");
    silent(gauges({ limitsShared: 1 }), "redis");
    silent(redis({}), "redis");
    silent(file({ redis: { server: "redis:6379", problem: undefined, skew: undefined }, limits: LIMITS }), "limits");
    silent(limits({}), "limits");
    silent(limits({}, { ...KEYS, tokens: true }), "limits");
    silent(limits({ keyNames: ["team-b"] }, KEYS), "limits");
    silent(endpoints(endpoint("a", { waiting: 4 }), endpoint("b")), "load");
    silent(gauges({ saturation: Number.NaN }), "load");
    silent(gauges({ openFiles: 900 }), "headroom");
  });

  it("says what the pool has left, in requests and tokens, and how Redis does", () => {
    const says = (change: Partial<InstallationFacts>, check: string) =>
      findingsOf({ ...HEALTHY, ...change }).find((finding) => finding.check === check)?.says;
    expect(says({}, "load")).toBe(
      "the pool is at 10 %, 2 in flight, 2 running (highest seen: 16), 0 waiting, the fullest KV cache at 10 % (default/a), room for 28,800 tokens in the KV caches",
    );
    const unknown = endpoint("b", { kvUsage: null, capacity: null });
    expect(says({ ...endpoints(endpoint("a"), unknown) }, "load")).toMatch(/2 running, 0 waiting, .* \(default\/a\)$/);
    expect(says(redis({}), "redis")).toBe(
      "Redis 7.2.4 at redis:6379 answers in less than 1 ms and runs the script of shared limits; it evicts nothing",
    );
    const shown = { ...redis({}), ...file({ limits: LIMITS, redis: REDIS }) };
    expect(says(shown, "limits")).toBe("2 rules in limits.yaml, shared through Redis redis:6379");
  });

  it("stays short however many endpoints are down", () => {
    const many = Array.from({ length: 500 }, (_, i) => endpoint(`e${i}`, { state: "down", models: [`m${i}`] }));
    const text = reportText(findingsOf({ ...HEALTHY, ...endpoints(...many), servers: undefined }));
    expect(text.split("\n").length).toBeLessThan(40);
    expect(text).toContain("492 further endpoints not up");
    expect(text).toContain("and 492 more");
  });
});

describe("the report", () => {
  it("is a line for each finding, what to do, and the counts; or JSON", () => {
    const findings = findingsOf({
      ...HEALTHY,
      running: "no\nprocess \u001b[31mlistens",
      file: undefined,
      servers: undefined,
    });
    const text = reportText(findings);
    expect(text).toMatch(
      /^FAIL {2}admin {2}no.*\n {11,}-> start the gateway, or name .*: sluice doctor --admin HOST:PORT\n1 failure, 0 warnings, 0 ok\n$/,
    );
    expect(text).not.toContain("\u001b");
    expect(JSON.parse(reportJson(findings))).toMatchObject({
      exitStatus: 1,
      findings: [{ check: "admin", level: "fail" }],
    });
  });
});
