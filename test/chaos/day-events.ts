import { readFileSync, renameSync } from "node:fs";
import { poll } from "../support/poll.ts";
import type { DayBook } from "./day-book.ts";
import { type DaySite, SPARE, STEERED } from "./day-site.ts";
import type { DayTraffic } from "./day-traffic.ts";
import type { Faults } from "./day-verdict.ts";
import { type DayServer, flushAll, keysTool, knowsKey, seenAs } from "./day-world.ts";

/** Seconds for which a former secret counts. */
const GRACE = 6;
/** More requests than a client sends over one connection. */
const NEW_CONNECTION = 26;

/** What happens at the beginning of each hour, 1 to 24. Each event ends when its effect shows, and notes what it broke in `faults`. */
export function eventsOf(
  site: DaySite,
  traffic: DayTraffic,
  book: DayBook,
  faults: Faults,
): Readonly<Record<number, () => Promise<unknown>>> {
  const { gateways, redis, front, secrets, wardrobe } = site;
  const { a0, a1, a2, b0, b1 } = site.servers;
  const [first, second] = site.authorities;
  const [main] = gateways;
  const keys = site.file("keys.yaml");

  /** Ends servers in the middle of their work. */
  const kill = async (...servers: readonly DayServer[]): Promise<void> => {
    const from = Date.now();
    await Promise.all(servers.map((server) => server.stop()));
    for (const { name } of servers) faults.kills.push({ server: name, from, gone: Date.now() });
  };
  const shared = (value: number) =>
    site.all(`limits_shared ${value}`, `sluice_limits_shared{server="127.0.0.1:${redis.port}"}`, (v) => v === value);
  const refused = (metric: string, value: number) => site.all(`${metric} ${value}`, metric, (v) => v === value);

  return {
    1: () => kill(a0),
    2: () => a0.start(),
    3: async () => {
      const next = await keysTool(keys, "rotate", "steady", "--grace", `${GRACE}s`);
      const until = Date.parse(/until: (\S+?)[\s,}]/.exec(readFileSync(keys, "utf8"))![1]!);
      faults.ends.set("former", { from: until, until, words: /has expired/ });
      await knowsKey(gateways, site.trust, next, 200);
      secrets.set("steady", next);
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
      const secret = await keysTool(keys, "add", "--name", "newcomer", "--models", "alpha,beta,alpha-sql");
      await knowsKey(gateways, site.trust, secret, 200);
      secrets.set("newcomer", secret);
    },
    7: async () => {
      site.put("tls.key", second.server.key);
      site.put("tls.crt", second.server.cert);
      await site.shows(second);
    },
    // Whoever asks a server that hangs waits; nobody is refused.
    8: async () => {
      a1.process!.child.kill("SIGSTOP");
      await seenAs(gateways, "a1", "blind");
      a1.process!.child.kill("SIGCONT");
      await seenAs(gateways, "a1", "up");
    },
    // From now on the picker leaves one server out, though nothing else is wrong with it.
    9: async () => {
      await site.reload(() => site.configure(STEERED));
      faults.steered.push({ server: SPARE, from: Date.now(), until: Number.POSITIVE_INFINITY });
      await traffic.round(2);
    },
    10: async () => {
      site.put("clients.crt", `${first.ca}\n${second.ca}`);
      await site.takes(second, true);
      wardrobe.client = second.client;
    },
    // Every client has a connection with its new certificate by then.
    11: async () => {
      await traffic.round(NEW_CONNECTION);
      site.put("clients.crt", second.ca);
      await site.takes(first, false);
      await site.shows(second);
    },
    12: async () => {
      renameSync(main!.log, `${main!.log}.1`);
      const { server, from } = faults.steered.pop()!;
      faults.steered.push({ server, from, until: Date.now() });
      const before = book.served.get(server) ?? 0;
      await site.reload(() => site.configure());
      await poll(`requests at ${server} again`, () => (book.served.get(server) ?? 0) > before);
    },
    13: async () => {
      site.put("limits.yaml", "rules: [{ keys: all }]\n");
      await refused("sluice_limits_file_refused", 1);
      site.limit("- { model: beta, requestsPerMinute: 10000000 }\n");
      await refused("sluice_limits_file_refused", 0);
    },
    14: async () => {
      await a2.start();
      site.list(a0, a1, a2, b0, b1);
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
      const words = /was revoked/;
      // Until both have read the file, either answer is right.
      faults.ends.set("leaver", { from, until: Number.POSITIVE_INFINITY, words });
      await keysTool(keys, "revoke", "leaver");
      await knowsKey(gateways, site.trust, secrets.get("leaver")!, 401);
      faults.ends.set("leaver", { from, until: Date.now(), words });
    },
    18: async () => {
      const from = Date.now();
      await kill(b0, b1);
      faults.absences.push({ model: "beta", from, until: Number.POSITIVE_INFINITY });
      await traffic.round(2);
    },
    19: async () => {
      const { model, from } = faults.absences.pop()!;
      faults.absences.push({ model, from, until: Number.POSITIVE_INFINITY });
      await Promise.all([b0.start(), b1.start()]);
      for (const { name } of [b0, b1]) await seenAs(gateways, name, "up");
      faults.absences.splice(0, 1, { model, from, until: Date.now() });
    },
    20: () => flushAll(redis.port),
    // Whoever leaves the file gets nothing new, and what it works on ends.
    21: async () => {
      site.list(a1, a2, b0, b1);
      await seenAs(gateways, "a0", undefined);
      await poll("a0 to be idle", async () => (await a0.running()) === 0);
      await a0.stop();
    },
    // A file with a mistake changes nothing, not even by its right part.
    22: async () => {
      site.configure("retries: { max: 0 }\npaths: { alow: [] }\n");
      await refused("sluice_gateway_file_refused", 1);
    },
    23: async () => {
      await site.reload(() => site.configure("retries: { max: 3 }\n"));
      await refused("sluice_gateway_file_refused", 0);
    },
  };
}
