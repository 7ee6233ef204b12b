import { Resolver } from "node:dns/promises";
import { readAddress } from "../endpoints/address.ts";

/** Milliseconds until a question is asked again or given up, and how often it is asked. */
const TIMEOUT = 2000;
const TRIES = 2;
/** The most hosts of one SRV name, and how many of them are asked at a time. */
export const MAX_TARGETS = 1024;
const AT_A_TIME = 16;

/** A host and a port that an SRV record names. */
interface Target {
  readonly host: string;
  readonly port: number;
}

/** An address and a port that DNS knows. */
export interface FoundServer {
  readonly address: string;
  readonly port: number;
}

/** The result of a look. */
export interface Found {
  /** Sorted, each one once. Undefined = there has been no answer so far. */
  readonly servers: readonly FoundServer[] | undefined;
  /** Why this is not wholly the answer of this moment; "" = it is. */
  readonly problem: string;
}

/** The part of a resolver that lookups use. */
export type DnsClient = Pick<Resolver, "resolve4" | "resolve6" | "resolveSrv" | "cancel">;

/** @param servers addresses of DNS servers; empty = those of the system */
export function dnsClient(servers: readonly string[]): DnsClient {
  const resolver = new Resolver({ timeout: TIMEOUT, tries: TRIES });
  if (servers.length > 0) resolver.setServers(servers);
  return resolver;
}

/** The records of a question; or why there are none. An answer without records is a problem, too. */
type Answer<T> = { readonly records: readonly T[] } | { readonly problem: string };

const PROBLEMS: Readonly<Record<string, string>> = {
  ENOTFOUND: "the name does not exist (NXDOMAIN)",
  ENODATA: "the name has no record of this type",
  ESERVFAIL: "the DNS server failed (SERVFAIL)",
  EREFUSED: "the DNS server refused the query (REFUSED)",
  ETIMEOUT: "no DNS server answered in time",
  ECONNREFUSED: "no DNS server accepted the query",
  EBADRESP: "the answer of the DNS server cannot be read",
  EFORMERR: "the DNS server cannot read the query (FORMERR)",
  ENOTIMP: "the DNS server does not support the query (NOTIMP)",
};

/** Codes of answers that say: there is no such record. All others are failures. */
const EMPTY: ReadonlySet<string> = new Set(["ENOTFOUND", "ENODATA"]);

async function ask<T>(question: Promise<readonly T[]>): Promise<Answer<T> & { readonly isEmpty: boolean }> {
  try {
    const records = await question;
    if (records.length > 0) return { records, isEmpty: false };
    return { problem: PROBLEMS["ENODATA"]!, isEmpty: true };
  } catch (error) {
    const code = String((error as NodeJS.ErrnoException).code);
    return { problem: PROBLEMS[code] ?? `the DNS request failed (${code})`, isEmpty: EMPTY.has(code) };
  }
}

/** Asks for the addresses of one name, and remembers the last answer of each question. */
class HostLookup {
  readonly #client: DnsClient;
  readonly #name: string;
  #v4: readonly string[] = [];
  #v6: readonly string[] = [];

  constructor(client: DnsClient, name: string) {
    this.#client = client;
    this.#name = name;
  }

  /** The addresses; where no question has records now, those that were known. */
  async look(): Promise<{ readonly addresses: readonly string[]; readonly problem: string }> {
    const [v4, v6] = await Promise.all([
      ask(this.#client.resolve4(this.#name)),
      ask(this.#client.resolve6(this.#name)),
    ]);
    let problem = "";
    if ("records" in v4) this.#v4 = servable(v4.records);
    if ("records" in v6) this.#v6 = servable(v6.records);
    if ("problem" in v4 && "problem" in v6) {
      // The failure says more than the answer of the other question.
      problem = v4.isEmpty && !v6.isEmpty ? v6.problem : v4.problem;
    } else {
      // Some servers fail every AAAA question: such a failure counts only where it hides addresses.
      if ("problem" in v4 && v4.isEmpty) this.#v4 = [];
      if ("problem" in v6 && v6.isEmpty) this.#v6 = [];
      if ("problem" in v4 && this.#v4.length > 0) problem = v4.problem;
      if ("problem" in v6 && this.#v6.length > 0) problem = v6.problem;
    }
    const addresses = [...this.#v4, ...this.#v6];
    if (problem === "" && addresses.length === 0) problem = "the name has no address that a server can have";
    return { addresses, problem };
  }
}

/** Asks for the servers of one name. A question without an answer leaves what the name had. */
export interface NameLookup {
  look(): Promise<Found>;
}

/** A name with A and AAAA records. */
export class HostNameLookup implements NameLookup {
  readonly #host: HostLookup;
  readonly #port: number;

  constructor(client: DnsClient, name: string, port: number) {
    this.#host = new HostLookup(client, name);
    this.#port = port;
  }

  async look(): Promise<Found> {
    const { addresses, problem } = await this.#host.look();
    if (addresses.length === 0) return { servers: undefined, problem };
    return { servers: sorted(addresses.map((address) => ({ address, port: this.#port }))), problem };
  }
}

/** A name with SRV records. All their targets count, whatever their priority and weight: Sluice chooses by load. */
export class SrvLookup implements NameLookup {
  readonly #client: DnsClient;
  readonly #name: string;
  #targets: readonly Target[] = [];
  #hosts = new Map<string, HostLookup>();

  constructor(client: DnsClient, name: string) {
    this.#client = client;
    this.#name = name;
  }

  async look(): Promise<Found> {
    const answer = await ask(this.#client.resolveSrv(this.#name));
    const problems: string[] = [];
    if ("problem" in answer) problems.push(answer.problem);
    else {
      // The target "." says that there is no such service (RFC 2782).
      const targets = answer.records
        .filter(({ name, port }) => name !== "" && name !== "." && port > 0)
        .map(({ name, port }) => ({ host: name.toLowerCase(), port }));
      if (targets.length === 0) problems.push("the SRV records name no host");
      else this.#targets = targets.slice(0, MAX_TARGETS);
      if (targets.length > MAX_TARGETS)
        problems.push(`more than ${MAX_TARGETS} SRV records: Sluice ignores the last ones`);
    }
    const hosts = new Map<string, HostLookup>();
    for (const { host } of this.#targets)
      hosts.set(host, hosts.get(host) ?? this.#hosts.get(host) ?? new HostLookup(this.#client, host));
    this.#hosts = hosts;
    const addresses = new Map<string, readonly string[]>();
    const waiting = [...hosts];
    const work = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const [host, lookup] = next;
        const found = await lookup.look();
        addresses.set(host, found.addresses);
        if (found.problem !== "") problems.push(`${host}: ${found.problem}`);
      }
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, work));
    const servers = this.#targets.flatMap(({ host, port }) =>
      (addresses.get(host) ?? []).map((address) => ({ address, port })),
    );
    // Sorted, since the log has a line for each change of the text.
    const more = problems.length > 1 ? `, and ${problems.length - 1} more` : "";
    const problem = problems.length === 0 ? "" : `${problems.sort()[0]}${more}`;
    return { servers: servers.length === 0 ? undefined : sorted(servers), problem };
  }
}

/** Without addresses that no single server has, such as 0.0.0.0. */
function servable(records: readonly string[]): readonly string[] {
  return records.filter((address) => "address" in readAddress(address, "lenient"));
}

function sorted(servers: readonly FoundServer[]): readonly FoundServer[] {
  const byKey = new Map(servers.map((server) => [`${server.address} ${server.port}`, server]));
  return [...byKey.keys()].sort().map((key) => byKey.get(key)!);
}
