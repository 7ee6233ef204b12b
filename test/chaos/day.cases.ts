import { mkdtempSync, readFileSync, renameSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { type ClientAuthority, clientAuthority } from "../support/certificates.ts";
import { poll } from "../support/poll.ts";
import { residentMiB } from "../support/process.ts";
import { startRedis } from "../support/redis.ts";
import { tell } from "./account.ts";
import { type Caller, DayTraffic, type Wardrobe } from "./day-traffic.ts";
import { type Faults, type Outcome, verdict } from "./day-verdict.ts";
import { DayGateway, DayServer, flushAll, handshake, keysTool, knowsKey, put, SlowPage, seenAs } from "./day-world.ts";

const HOURS = 24;
/** Each limit of a caller, by its name. */
const REQUESTS = 60;
const TOKENS = 600;
const IN_FLIGHT = 3;
/** Seconds for which a former secret counts. */
const GRACE = 6;
/** Tokens that one answer of the caller with a limit on tokens may have beyond its reservation. */
const ANSWER = 40;
/** What lifts a limit once more: "at most one limit for each further gateway" in the traffic, in the outage, after the loss. */
const EXCESSES = 3;
/** Descriptors that come and go with connections to model servers and logs. */
const SPARE = 12;
/** MiB that a heap without garbage may grow by, and that the process may have. */
const HEAP_GROWTH = 12;
const RESIDENT = 400;

const limitsText = (more: string): string => `rules:
- { key: limited, requestsPerMinute: ${REQUESTS} }
- { key: thrifty, tokensPerMinute: ${TOKENS} }
- { key: crowd, inFlight: ${IN_FLIGHT} }
- { model: alpha, requestsPerMinute: 10000000 }
${more}`;

/** Counts what becomes of requests. Failures, and answers to callers whose keys end, are kept until all faults are known. */
class Book {
  readonly open: Outcome[] = [];
  readonly admitted = new Map<string, number>();
  readonly tokens = new Map<string, number>();
  answered = 0;
  readonly #ending: ReadonlySet<string>;

  constructor(ending: ReadonlySet<string>) {
    this.#ending = ending;
  }

  note(outcome: Outcome, usage: number): void {
    const { caller, status, problem } = outcome;
    if (status === 200) {
      this.admitted.set(caller, (this.admitted.get(caller) ?? 0) + 1);
      this.tokens.set(caller, (this.tokens.get(caller) ?? 0) + usage);
    }
    if ((status === 200 || status === 0) && problem === "" && !this.#ending.has(caller)) this.answered++;
    else this.open.push(outcome);
  }
}

/**
 * A day of a gateway, and of a second one that shares its limits, in 24 hours of `hourMs` each: mixed traffic, and something
 * happens in each hour. Every request that is not answered rightly has to be explained by what was done at that time.
 */
export async function liveThroughADay(hourMs: number): Promise<void> {
  const running: { stop(): Promise<unknown> }[] = [];
  try {
    const folder = mkdtempSync(join(tmpdir(), "sluice-day-"));
    const file = (name: string): string => join(folder, name);
    const [first, second] = [await clientAuthority(), await clientAuthority()];
    const redis = await startRedis();
    running.push(redis);

    // Two models, one with an adapter; one server of each pair is reached through a front.
    const alpha = ["--model", "alpha", "--lora-modules", "alpha-sql=/adapters/sql", "--max-loras", "2"];
    const a0 = await DayServer.make("a0", ...alpha);
    const a1 = await DayServer.make("a1", ...alpha);
    const a2 = await DayServer.make("a2", ...alpha);
    const b0 = await DayServer.make("b0", "--model", "beta");
    const b1 = await DayServer.make("b1", "--model", "beta");
    running.push(a0, a1, a2, b0, b1);
    await Promise.all([a0, a1, b0, b1].map((server) => server.start()));
    const front = await SlowPage.before(b1.port);
    running.push(front);
    const list = (...servers: readonly DayServer[]): void =>
      put(
        file("endpoints.yaml"),
        `endpoints:\n${servers
          .map(
            (server) =>
              `- { name: ${server.name}, address: 127.0.0.1, port: ${server === b1 ? front.port : server.port} }`,
          )
          .join("\n")}\n`,
      );
    list(a0, a1, b0, b1);

    const secrets = new Map<string, string>();
    for (const name of ["steady", "late", "leaver", "limited", "thrifty", "crowd"])
      secrets.set(name, await keysTool(file("keys.yaml"), "add", "--name", name));
    put(file("limits.yaml"), limitsText(""));
    put(file("tls.crt"), first.server.cert);
    put(file("tls.key"), first.server.key);
    put(file("clients.crt"), first.ca);
    const args = [
      ...["--endpoints", file("endpoints.yaml"), "--keys", file("keys.yaml"), "--limits", file("limits.yaml")],
      ...["--limits-redis", redis.url, "--tls-cert", file("tls.crt"), "--tls-key", file("tls.key")],
      ...["--client-ca", file("clients.crt"), "--small-body", "4Ki"],
    ];
    const gateways = await Promise.all([0, 1].map((n) => DayGateway.start(file(`requests-${n}.log`), args)));
    running.push(...gateways.map(({ gateway }) => gateway.process));
    const [main, other] = gateways as [DayGateway, DayGateway];
    for (const { name } of [a0, a1, b0, b1]) await seenAs(gateways, name, "up");
    const idle = main.descriptors();

    // Who sends what, and what they know.
    const wardrobe: Wardrobe = { ca: [first.ca, second.ca], client: first.client };
    const both = ["alpha", "beta", "alpha-sql"];
    const sends = (name: string, more: Partial<Caller> = {}): Caller => ({
      ...{ name, key: () => secrets.get(name), models: both, clients: [1, 1], short: false },
      ...more,
    });
    const formerSecret = secrets.get("steady")!;
    const callers = [
      sends("steady", { clients: [5, 2] }),
      sends("former", { key: () => formerSecret, clients: [2, 0] }),
      sends("late"),
      sends("leaver"),
      sends("newcomer"),
      sends("limited", { short: true, models: ["alpha"] }),
      sends("thrifty", { short: true, models: ["beta"] }),
      sends("crowd", { short: true, clients: [4, 3] }),
    ];
    const faults: Faults = {
      kills: [],
      absences: [],
      limited: new Map([
        ["limited", "requests"],
        ["thrifty", "tokens"],
        ["crowd", "requests"],
      ]),
      ends: new Map(),
    };
    const book = new Book(new Set(["former", "leaver"]));
    const begun = performance.now();
    const ports = gateways.map(({ port }) => port);
    const traffic = new DayTraffic(ports, callers, wardrobe, (outcome, usage) => book.note(outcome, usage));
    running.push(traffic);

    /** Ends servers in the middle of their work. */
    const kill = async (...servers: readonly DayServer[]): Promise<void> => {
      const from = Date.now();
      await Promise.all(servers.map((server) => server.stop()));
      for (const { name } of servers) faults.kills.push({ server: name, from, gone: Date.now() });
    };
    const trust = (authority: ClientAuthority) => ({ port: main.port, ca: wardrobe.ca, client: authority.client });
    const shows = ({ server }: ClientAuthority) =>
      poll("the certificate in force", async () => {
        const seen = await Promise.all(
          ports.map((port) => handshake({ ...trust(first), client: wardrobe.client, port })),
        );
        return seen.every(({ shown, taken }) => taken && shown.trim() === server.cert.trim());
      });
    const shared = (value: number) =>
      poll(`limits that are ${value === 1 ? "" : "not "}shared`, async () =>
        (
          await Promise.all(
            gateways.map((gateway) => gateway.sample(`sluice_limits_shared{server="127.0.0.1:${redis.port}"}`)),
          )
        ).every((v) => v === value),
      );

    const heaps: number[] = [];
    const crowds: number[] = [];
    const events: Readonly<Record<number, () => Promise<void>>> = {
      1: async () => kill(a0),
      2: async () => a0.start(),
      3: async () => {
        secrets.set("steady-next", await keysTool(file("keys.yaml"), "rotate", "steady", "--grace", `${GRACE}s`));
        const text = readFileSync(file("keys.yaml"), "utf8");
        const until = Date.parse(/until: (\S+?)[\s,}]/.exec(text)![1]!);
        faults.ends.set("former", { from: until, until, words: /has expired/ });
        await knowsKey(gateways, trust(first), secrets.get("steady-next")!, 200);
        secrets.set("steady", secrets.get("steady-next")!);
      },
      4: async () => {
        await redis.kill();
        await shared(0);
      },
      5: async () => {
        await redis.restart();
        await shared(1);
      },
      6: async () => {
        const secret = await keysTool(file("keys.yaml"), "add", "--name", "newcomer", "--models", both.join(","));
        await knowsKey(gateways, trust(first), secret, 200);
        secrets.set("newcomer", secret);
      },
      7: async () => {
        put(file("tls.key"), second.server.key);
        put(file("tls.crt"), second.server.cert);
        await shows(second);
      },
      // Whoever asks a server that hangs waits; nobody is refused.
      8: async () => {
        a1.process!.child.kill("SIGSTOP");
        await seenAs(gateways, "a1", "blind");
        a1.process!.child.kill("SIGCONT");
        await seenAs(gateways, "a1", "up");
      },
      10: async () => {
        put(file("clients.crt"), `${first.ca}\n${second.ca}`);
        await poll("the new clients to be let in", async () =>
          (await Promise.all(ports.map((port) => handshake({ ...trust(second), port })))).every(({ taken }) => taken),
        );
        wardrobe.client = second.client;
      },
      // Every client has a connection with its new certificate by then.
      11: async () => {
        await traffic.round(26);
        put(file("clients.crt"), second.ca);
        await poll("the old clients to be refused", async () =>
          (await Promise.all(ports.map((port) => handshake({ ...trust(first), port })))).every(({ taken }) => !taken),
        );
        await shows(second);
      },
      12: async () => renameSync(main.log, `${main.log}.1`),
      13: async () => {
        put(file("limits.yaml"), "rules: [{ keys: all }]\n");
        await poll("the broken limits to be told", async () => (await main.sample("sluice_limits_file_refused")) === 1);
        put(file("limits.yaml"), limitsText("- { model: beta, requestsPerMinute: 10000000 }\n"));
        await poll("the new limits", async () => (await main.sample("sluice_limits_file_refused")) === 0);
      },
      14: async () => {
        await a2.start();
        list(a0, a1, a2, b0, b1);
        await seenAs(gateways, "a2", "up");
      },
      15: async () => {
        front.hold(true);
        await seenAs(gateways, "b1", "blind");
      },
      16: async () => {
        front.hold(false);
        await seenAs(gateways, "b1", "up");
      },
      17: async () => {
        const from = Date.now();
        await keysTool(file("keys.yaml"), "revoke", "leaver");
        // Until both have read the file, either answer is right.
        faults.ends.set("leaver", { from, until: Number.POSITIVE_INFINITY, words: /was revoked/ });
        await knowsKey(gateways, trust(second), secrets.get("leaver")!, 401);
        faults.ends.set("leaver", { from, until: Date.now(), words: /was revoked/ });
      },
      18: async () => {
        const from = Date.now();
        await kill(b0, b1);
        faults.absences.push({ model: "beta", from, until: Number.POSITIVE_INFINITY });
        await traffic.round(2);
      },
      19: async () => {
        const { model, from } = faults.absences.pop()!;
        await Promise.all([b0.start(), b1.start()]);
        faults.absences.push({ model, from, until: Date.now() });
        for (const { name } of [b0, b1]) await seenAs(gateways, name, "up");
      },
      20: async () => flushAll(redis.port),
      // Whoever leaves the file gets nothing new, and what it works on ends.
      21: async () => {
        list(a1, a2, b0, b1);
        await seenAs(gateways, "a0", undefined);
        await poll("a0 to be idle", async () => (await a0.running()) === 0);
        await a0.stop();
      },
    };

    for (let hour = 1; hour <= HOURS; hour++) {
      const over = begun + hour * hourMs;
      await events[hour]?.();
      await traffic.round();
      await poll(
        `the end of hour ${hour}`,
        async () => {
          crowds.push(...(await Promise.all(gateways.map((gateway) => gateway.counted("key=crowd")))));
          return performance.now() >= over;
        },
        hourMs + 60_000,
      );
      if (hour % 6 === 0) heaps.push(await main.heapMiB());
    }
    const busy = main.descriptors();
    await traffic.stop();
    const minutes = (performance.now() - begun) / 60_000;

    // Each outcome has its cause.
    const tally = new Map<string, number>([["answered", book.answered]]);
    const unexplained: Outcome[] = [];
    for (const outcome of book.open) {
      const cause = verdict(outcome, faults);
      if (cause === undefined) unexplained.push(outcome);
      else tally.set(cause, (tally.get(cause) ?? 0) + 1);
    }
    tell(
      `${HOURS} hours in ${minutes.toFixed(1)} minutes: ${[...tally].map(([why, n]) => `${n} ${why}`).join("; ")}; ${unexplained.length} unexplained`,
    );
    expect(unexplained.slice(0, 20)).toEqual([]);
    for (const cause of ["the key has ended", "above the limit", "no server of the model"])
      expect([cause, (tally.get(cause) ?? 0) > 0]).toEqual([cause, true]);

    // The limits held.
    const most = (limit: number): number => limit * (1 + minutes) + limit * EXCESSES;
    const used = { requests: book.admitted.get("limited") ?? 0, tokens: book.tokens.get("thrifty") ?? 0 };
    tell(
      `limits: ${used.requests} requests (most ${most(REQUESTS).toFixed(0)}), ${used.tokens} tokens (most ${most(TOKENS).toFixed(0)}), ${Math.max(...crowds)} at a time`,
    );
    expect(used.requests).toBeLessThanOrEqual(most(REQUESTS));
    expect(used.requests).toBeGreaterThanOrEqual(REQUESTS);
    expect(used.tokens).toBeLessThanOrEqual(most(TOKENS) + ANSWER);
    expect(used.tokens).toBeGreaterThanOrEqual(TOKENS / 2);
    expect(Math.max(...crowds)).toBeLessThanOrEqual(IN_FLIGHT);

    // Nothing is left behind, and every request has its line.
    const none = { endpoints: 0, limits: 0, bytes: 0 };
    for (const [n, gateway] of gateways.entries()) {
      await poll("nothing to be left", async () => {
        const left = await gateway.leftovers();
        if (JSON.stringify(left) !== JSON.stringify(none)) throw new Error(JSON.stringify(left));
        return true;
      });
      const answered = [...traffic.answered[n]!];
      let lines: ReadonlyMap<string, number> = new Map();
      await poll(
        "the last lines",
        () => {
          lines = gateway.logged();
          return answered.every((id) => lines.has(id));
        },
        5000,
      ).catch(() => {});
      expect(answered.filter((id) => lines.get(id) !== 1).slice(0, 10)).toEqual([]);
      expect(await gateway.sample("sluice_request_log_dropped_total")).toBe(0);
    }
    for (const server of [a1, a2, b0, b1]) await poll("idle servers", async () => (await server.running()) === 0);

    const resident = await residentMiB(main.gateway.process.pid);
    const growth = heaps.at(-1)! - heaps[0]!;
    tell(
      `heap without garbage: ${heaps.map((mib) => mib.toFixed(1)).join(", ")} MiB; resident ${resident.toFixed(0)} MiB; descriptors: idle ${JSON.stringify(idle)}, busy ${JSON.stringify(busy)}`,
    );
    expect(growth).toBeLessThanOrEqual(HEAP_GROWTH);
    expect(resident).toBeLessThanOrEqual(RESIDENT);
    await poll("descriptors as before", () => {
      const { all, sockets } = main.descriptors();
      if (sockets > idle.sockets + SPARE || all > idle.all + SPARE) throw new Error(JSON.stringify({ all, sockets }));
      return true;
    });
    expect(other.gateway.process.exit).toBeUndefined();
  } finally {
    for (const one of running.reverse()) await one.stop();
  }
}
