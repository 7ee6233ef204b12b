import type { HeaderList } from "../../base/inference/headers.ts";

/** The budget's calls on the receiver of a body. */
export interface BudgetHolder {
  /** `x-request-id`, for the report. */
  readonly requestId: string;
  /** Stops reading this body. */
  pause(): void;
  resume(): void;
  /** The body stalls while memory is short: end the request and release its account. */
  letGo(): void;
}

/** The bytes that one client address holds in one pool. */
export interface Party {
  readonly address: string;
  held: number;
  bodies: number;
}

/** One of the two pools: small bodies have a pool of their own, the reserve. */
export class Pool {
  readonly limit: number;
  used = 0;
  /** Incomplete bodies, in the order of their arrival in this pool. */
  readonly members = new Set<BodyAccount>();
  /** Addresses of `members`. */
  readonly parties = new Map<string, Party>();

  constructor(limit: number) {
    this.limit = limit;
  }

  /** More than half of the pool is in use, so stalled bodies must end. */
  get short(): boolean {
    return 2 * this.used > this.limit;
  }
}

/**
 * | State | Pieces come | Can be paused | Can stall |
 * |---|---|---|---|
 * | empty | not yet, or no longer | no | no |
 * | reading | yes | yes | yes |
 * | paused | no: Sluice reads nothing | is | no |
 * | complete | no | no | no |
 */
export type State = "empty" | "reading" | "paused" | "complete";

/** The bytes that one exchange holds. Only the budget writes to it. */
export class BodyAccount {
  readonly holder: BudgetHolder;
  /** The client's address; "" = unknown, and then only the share of one body applies. Set before the first piece. */
  address = "";
  /** Bytes announced for the body, 0 = unknown. Set before the first piece. */
  expected = 0;
  /** Bytes held. */
  held = 0;
  state: State = "empty";
  pool: Pool | undefined;
  /** The party of a pool member whose address is known. */
  party: Party | undefined;
  /** The part of `held` that takes no room from others, while the body is paused. */
  parked = 0;
  /** Bytes for which the pool keeps room, since the body was resumed. */
  promised = 0;
  /** Bytes held when the present stretch of too few bytes began; `slowTicks` is its length in ticks. */
  mark = 0;
  slowTicks = 0;

  constructor(holder: BudgetHolder) {
    this.holder = holder;
  }
}

/** One body in the report of a full budget. */
export interface HolderReport {
  /** "" = unknown. */
  readonly address: string;
  readonly requestId: string;
  readonly bytes: number;
  readonly state: State;
  /** Milliseconds without the minimum rate, in steps of a tick; a pause does not count. */
  readonly slowFor: number;
}

/** The longest text that is an address: IPv6 with a zone. */
const LONGEST = 64;

/**
 * The client of a request in the byte budget: its IP address, or the /64 network of an IPv6 address. One client has a whole /64
 * network. "" = unknown.
 *
 * The nearest proxy wrote the last entry of `x-forwarded-for`. A client can forge the earlier entries, and all entries where no
 * proxy adds its own. The budget uses the address only to order clients, so a false address gains little.
 * @param known the client's address as the wire knows it, with or without a port; it wins over the headers
 */
export function clientAddressOf(headers: HeaderList, known: string | undefined): string {
  if (known !== undefined) return addressIn(known);
  const forwarded = headers.get("x-forwarded-for");
  return forwarded === undefined ? "" : addressIn(forwarded.slice(forwarded.lastIndexOf(",") + 1));
}

/**
 * The address that stands for a client: of an IPv6 address the /64 network, because one client has a whole one.
 * @param text with or without a port; "" = not an address
 */
export function addressIn(text: string): string {
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
