import { expect } from "vitest";
import { poll } from "../support/poll.ts";
import { residentMiB } from "../support/process.ts";
import { tell } from "./account.ts";
import { DayBook } from "./day-book.ts";
import { type Descriptors, descriptorsOf } from "./day-descriptors.ts";
import { eventsOf } from "./day-events.ts";
import { growthPerDecision, type HeapSample } from "./day-memory.ts";
import { DaySite, IN_FLIGHT, REQUESTS, type Stoppable, TOKENS } from "./day-site.ts";
import { DayTraffic } from "./day-traffic.ts";
import type { Faults } from "./day-verdict.ts";
import type { DayGateway } from "./day-world.ts";

const HOURS = 24;
/** Tokens that one answer of the caller with a limit on tokens may have beyond its reservation. */
const ANSWER = 40;
/** What lifts a limit once more: "at most one limit for each further gateway" in the traffic, in the outage, after the loss. */
const EXCESSES = 3;
/**
 * The hour from which the heap should keep its size: the picker, the certificates and the endpoints have changed by then. Each first
 * change loads and compiles code, and a further endpoint has tables of its own.
 */
const STEADY = 15;
/** Bytes for each decision from then on: an entry of a map with a text and an object has more. */
const GROWTH = 64;
/** MiB that the heap, and the process, may have. A day too short for the growth has at least this bound. */
const HEAP = 80;
const RESIDENT = 400;

/**
 * A day of a gateway, and of a second one that shares its limits, in 24 hours: mixed traffic, and something happens in each
 * hour. Every request that is not answered rightly has to be explained by what was done at that time.
 * @param hourMs an hour is at least as long, in milliseconds, and as long as its event needs
 * @returns whether the day had enough requests to judge the growth of the heap
 */
export async function liveThroughADay(hourMs: number): Promise<boolean> {
  const running: Stoppable[] = [];
  try {
    const site = await DaySite.start(running);
    const { gateways } = site;
    const main = gateways[0]!;
    const openedBy = (): Descriptors => descriptorsOf(main.gateway.process.pid, site.serverPorts);
    const idle = openedBy();

    const limited = new Map([
      ["limited", "requests"],
      ["thrifty", "tokens"],
      ["crowd", "requests"],
    ]);
    const faults: Faults = { kills: [], absences: [], limited, ends: new Map(), steered: [] };
    const book = new DayBook(faults, new Set(["former", "leaver"]));
    const begun = performance.now();
    const ports = gateways.map(({ port }) => port);
    const callers = site.callers();
    const traffic = new DayTraffic(ports, callers, site.wardrobe, (outcome, usage) => book.note(outcome, usage));
    running.push(traffic);
    const events = eventsOf(site, traffic, book, faults);

    const heaps: HeapSample[] = [];
    let crowd = 0;
    for (let hour = 1; hour <= HOURS; hour++) {
      const over = begun + hour * hourMs;
      await events[hour]?.();
      await traffic.round();
      const isOver = async (): Promise<boolean> => {
        for (const gateway of gateways) crowd = Math.max(crowd, await gateway.counted("key=crowd"));
        return performance.now() >= over;
      };
      await poll(`the end of hour ${hour}`, isOver, hourMs + 60_000);
      heaps.push(await main.weigh());
    }
    await traffic.stop();
    const minutes = (performance.now() - begun) / 60_000;

    expectExplained(book, minutes);
    expectWithinLimits(book, crowd, minutes);
    for (const [n, gateway] of gateways.entries()) await expectNothingLeft(gateway, traffic.answered[n]!);
    const { a0, ...others } = site.servers;
    for (const server of Object.values(others)) await poll("idle servers", async () => (await server.running()) === 0);
    const clients = callers.reduce((sum, caller) => sum + caller.clients[0]!, 0);
    await expectDescriptors(openedBy, idle, clients, a0.port);
    const isJudged = await expectFlat(heaps, main);
    for (const { gateway } of gateways) expect(gateway.process.exit).toBeUndefined();
    return isJudged;
  } finally {
    for (const one of running.reverse()) await one.stop();
  }
}

/** Each outcome has its cause, and each kind of fault was met. */
function expectExplained(book: DayBook, minutes: number): void {
  const { tally, unexplained } = book.accounts();
  const causes = [...tally].map(([why, n]) => `${n} ${why}`).join("; ");
  tell(`${HOURS} hours in ${minutes.toFixed(1)} minutes: ${causes}; ${unexplained.length} unexplained`);
  expect(unexplained.slice(0, 20)).toEqual([]);
  for (const cause of ["answered", "the key has ended", "above the limit", "no server of the model"])
    expect([cause, (tally.get(cause) ?? 0) > 0]).toEqual([cause, true]);
}

/** The limits held, and the traffic reached them. @param crowd most requests at a time of the caller with this limit */
function expectWithinLimits(book: DayBook, crowd: number, minutes: number): void {
  const most = (limit: number): number => limit * (1 + minutes) + limit * EXCESSES;
  const requests = book.admitted.get("limited") ?? 0;
  const tokens = book.tokens.get("thrifty") ?? 0;
  tell(
    `limits: ${requests} requests (most ${most(REQUESTS).toFixed(0)}), ${tokens} tokens (most ${most(TOKENS).toFixed(0)}), ${crowd} at a time`,
  );
  expect(requests).toBeLessThanOrEqual(most(REQUESTS));
  expect(requests).toBeGreaterThanOrEqual(REQUESTS);
  expect(tokens).toBeLessThanOrEqual(most(TOKENS) + ANSWER);
  expect(tokens).toBeGreaterThanOrEqual(TOKENS / 2);
  expect(crowd).toBeLessThanOrEqual(IN_FLIGHT);
}

/** Nothing counts as in flight any more, and every request has its line. */
async function expectNothingLeft(gateway: DayGateway, answered: ReadonlySet<string>): Promise<void> {
  await poll("nothing to be left", async () => {
    const left = await gateway.leftovers();
    if (Object.values(left).some((count) => count !== 0)) throw new Error(JSON.stringify(left));
    return true;
  });
  await poll("one line for each request", () => {
    const lines = gateway.logged();
    const wrong = [...answered].filter((id) => lines.get(id) !== 1);
    if (wrong.length > 0) throw new Error(`${wrong.length} have none or several, such as ${wrong.slice(0, 5)}`);
    return true;
  });
  expect(await gateway.sample("sluice_request_log_dropped_total")).toBe(0);
}

/**
 * Everything but connections to model servers is as before the traffic: listeners, the connection to Redis, logs, watches, and no
 * client. To each model server of the list there may be one connection for each client at a time, kept for further requests for
 * 60 s, and one of the scrapes. To the server that has left the list there is none.
 */
async function expectDescriptors(
  openedBy: () => Descriptors,
  idle: Descriptors,
  clients: number,
  left: number,
): Promise<void> {
  await poll("descriptors as before", () => {
    const { toServers, others } = openedBy();
    const isRight = others <= idle.others && [...toServers.values()].every((count) => count <= clients + 1);
    if (!isRight || toServers.has(left)) throw new Error(JSON.stringify({ others, toServers: [...toServers], idle }));
    return true;
  });
  const { toServers, others } = openedBy();
  tell(`descriptors: ${others} (before ${idle.others}), and to model servers ${[...toServers.values()].join(", ")}`);
}

/** From the steady hour on, the heap keeps its size. @returns whether there were enough samples */
async function expectFlat(heaps: readonly HeapSample[], { gateway }: DayGateway): Promise<boolean> {
  const mib = (bytes: number): string => (bytes / 1024 / 1024).toFixed(1);
  const resident = await residentMiB(gateway.process.pid);
  const growth = growthPerDecision(heaps.slice(STEADY - 1));
  const shown = heaps.map(({ decisions, bytes }) => `${mib(bytes)} after ${decisions}`).join(", ");
  tell(`heap without garbage, MiB after decisions: ${shown}; resident ${resident.toFixed(0)} MiB`);
  tell(
    `growth of the heap: ${growth === undefined ? "too few requests to tell" : `${growth.toFixed(1)} bytes`} for each decision`,
  );
  for (const { bytes } of heaps) expect(bytes / 1024 / 1024).toBeLessThanOrEqual(HEAP);
  expect(resident).toBeLessThanOrEqual(RESIDENT);
  if (growth !== undefined) expect(growth).toBeLessThanOrEqual(GROWTH);
  return growth !== undefined;
}
