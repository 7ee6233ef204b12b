import type { HeaderList } from "../../base/inference/headers.ts";

/** What a body asks of whoever receives it. */
export interface BudgetHolder {
  /** `x-request-id`, for the report. */
  readonly requestId: string;
  /** Stop reading this body. */
  pause(): void;
  resume(): void;
  /** The body stalls while memory is short: end the request and release its account. */
  letGo(): void;
}

/** What one client address holds in one pool. */
export interface Party {
  readonly address: string;
  held: number;
  bodies: number;
}

/** Small bodies have a pool of their own: the reserve. */
export class Pool {
  readonly limit: number;
  used = 0;
  /** Bodies that are not complete, in the order of their arrival in this pool. */
  readonly members = new Set<BodyAccount>();
  /** Addresses of `members`. */
  readonly parties = new Map<string, Party>();

  constructor(limit: number) {
    this.limit = limit;
  }

  /** More than half of it is in use: who stalls must go. */
  get short(): boolean {
    return 2 * this.used > this.limit;
  }
}

/**
 * | State | Pieces come | Can be paused | Can stall |
 * |---|---|---|---|
 * | empty | not yet, or no longer | no | no |
 * | reading | yes | yes | yes |
 * | paused | no: we stopped it | is | no |
 * | complete | no | no | no |
 */
export type State = "empty" | "reading" | "paused" | "complete";

/** What one exchange holds. Only the budget writes to it. */
export class BodyAccount {
  readonly holder: BudgetHolder;
  /** The client's address; "" = unknown, and then the body has no share but its own. Set before the first piece. */
  address = "";
  /** Bytes announced for the body, 0 = unknown. Set before the first piece. */
  expected = 0;
  /** Bytes held. */
  held = 0;
  state: State = "empty";
  pool: Pool | undefined;
  /** Of a member of a pool with a known address. */
  party: Party | undefined;
  /** Of `held` while the body is paused: bytes that take no room from others. */
  parked = 0;
  /** Bytes that room is kept for, since the body was told to go on. */
  promised = 0;
  /** What was held when the present stretch of too few bytes began, and how many ticks it lasts. */
  mark = 0;
  slowTicks = 0;

  constructor(holder: BudgetHolder) {
    this.holder = holder;
  }
}

/** One line of the report of a spent budget. */
export interface HolderReport {
  /** "" = unknown. */
  readonly address: string;
  readonly requestId: string;
  readonly bytes: number;
  readonly state: State;
  /** Milliseconds without the minimum rate, in steps of a tick; 0 for bodies that nobody waits for. */
  readonly slowFor: number;
}

/** The longest text that is an address: IPv6 with a zone. */
const LONGEST = 64;

/**
 * Who a request counts for in the byte budget: the client's IP address, or the /64 network of an IPv6 address, which is
 * what one client has. "" = unknown.
 *
 * The last entry of `x-forwarded-for` is the one that the nearest proxy wrote: earlier entries, and all of them where no
 * proxy adds its own, are the client's word. The budget only orders clients by it, so a false address wins little.
 * @param known what the wire knows of the client, an IP address with or without a port; it wins over the headers
 */
export function clientAddressOf(headers: HeaderList, known: string | undefined): string {
  if (known !== undefined) return addressIn(known);
  const forwarded = headers.get("x-forwarded-for");
  return forwarded === undefined ? "" : addressIn(forwarded.slice(forwarded.lastIndexOf(",") + 1));
}

function addressIn(text: string): string {
  let address = text.trim();
  if (address.length > LONGEST) return "";
  const bracketed = /^\[([^\]]*)\](?::\d+)?$/.exec(address);
  if (bracketed !== null) address = bracketed[1]!;
  else if (/^[^:]*:\d+$/.test(address)) address = address.slice(0, address.indexOf(":"));
  if (!address.includes(":")) return address.toLowerCase();
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  return mapped === null ? `${network(address.toLowerCase())}::/64` : mapped[1]!;
}

/** The first four groups of an IPv6 address, written without leading zeros. */
function network(address: string): string {
  const [head = "", tail] = address.split("::");
  const groups = head === "" ? [] : head.split(":");
  const behind = tail ? tail.split(":").length : 0;
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - groups.length - behind);
  const all = [...groups, ...Array.from({ length: zeros }, () => "0"), ...(tail ? tail.split(":") : [])];
  return all
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":");
}
