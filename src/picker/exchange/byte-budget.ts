import { type BodyAccount, type HolderReport, type Party, Pool } from "./body-account.ts";

/** Sizes in bytes. Each field has a flag in `commands/common/exchange-flags.ts`. */
export interface BudgetSettings {
  /** All bodies together that are not small. */
  readonly limit: number;
  /** The longest body that is small; 0 = none is. */
  readonly small: number;
  /** All small bodies together, beside `limit`. */
  readonly reserve: number;
  /** Bytes per second. A body that brings less over the window stalls. */
  readonly minRate: number;
  /** Milliseconds. */
  readonly window: number;
}

const KiB = 1024;
const MiB = 1024 * KiB;

export const BUDGET_DEFAULTS: BudgetSettings = {
  limit: 256 * MiB,
  small: 64 * KiB,
  reserve: 64 * MiB,
  minRate: KiB,
  window: 10_000,
};

/** `tick` is called this many times per window. */
export const TICKS_PER_WINDOW = 10;

/**
 * A share: an owner that holds more than `limit / own` must leave `limit / spare` of a pool to the others. An owner within
 * its shares may use the whole pool, so bodies of an owner above its share never fill it.
 */
const SHARE = {
  /** Of one body, in the main pool. */
  body: { own: 64, spare: 4 },
  /** Of one client address, in both pools. */
  address: { own: 4, spare: 8 },
} as const;

/** So many bytes of a body that waits take no room from others: what it had brought when it was stopped. */
const MOST_PARKED = 128 * KiB;

/** The body that all others wait for must bring the minimum rate for each of them, up to this many. */
const MOST_WAITING_COUNTED = 64;

/**
 * The bytes that all buffered and replayed bodies of the process hold together.
 *
 * A body of at most `small` bytes counts in the reserve and never waits, unless the reserve and the main pool are both
 * spent. A longer one counts in the main pool. When the main pool is spent, every body in it stops except the oldest, which
 * goes on to its end. So no set of half-read bodies can block each other for ever, and the bytes held are bounded by
 * `limit + reserve`, the rest of one body, 128 KiB and a piece for each body that waits, and bodies that arrive in one
 * piece: those are there before anyone can say no. What a waiting body had brought when it was stopped takes no room from
 * others, or many bodies that wait would fill the pool with their beginnings. A body goes on when there is room for the rest
 * of it, or all that wait would go on for a moment and none would come to its end.
 *
 * Nothing here knows the time: `tick` stands for it.
 */
export class ByteBudget {
  readonly settings: BudgetSettings;
  /** Called when a pool gets short: `tick` is wanted until `short` is false. */
  onShort: () => void = () => {};
  readonly #main: Pool;
  readonly #reserve: Pool;
  /** Members of the main pool, the one that waits longest first. */
  readonly #paused = new Set<BodyAccount>();
  /** The one body that went on beyond the limit, until it is released or fits. */
  #beyond: BodyAccount | undefined;
  readonly #mostParked: number;
  /** Of all bodies. */
  #parked = 0;
  #promised = 0;
  #releases = 0;

  constructor(settings: Partial<BudgetSettings> = {}) {
    this.settings = { ...BUDGET_DEFAULTS, ...settings };
    this.#main = new Pool(this.settings.limit);
    this.#reserve = new Pool(this.settings.reserve);
    this.#mostParked = Math.min(MOST_PARKED, Math.floor(this.settings.limit / SHARE.body.own));
  }

  /** What the client of a stalled body is told. */
  get stallReason(): string {
    const { minRate, window } = this.settings;
    return `the request body stalled: less than ${minRate} bytes/s for ${window / 1000} s while others need the memory`;
  }

  /** Bytes held now, in both pools. */
  get used(): number {
    return this.#main.used + this.#reserve.used;
  }

  /** Bytes held now in the main pool. */
  get mainUsed(): number {
    return this.#main.used;
  }

  /** Bytes held now in the reserve. */
  get reserveUsed(): number {
    return this.#reserve.used;
  }

  /** How many bodies wait for room. */
  get paused(): number {
    return this.#paused.size;
  }

  /** How many addresses are told apart now, each pool counted by itself: never more than bodies that are not complete. */
  get addresses(): number {
    return this.#main.parties.size + this.#reserve.parties.size;
  }

  /** How often bytes of the main pool were given back; a figure that stands still is a budget that does not move. */
  get releases(): number {
    return this.#releases;
  }

  /** Whether a pool is more than half in use, or somebody waits. */
  get short(): boolean {
    return this.#main.short || this.#reserve.short || this.#paused.size > 0;
  }

  /**
   * Accounts `bytes` that were already received, and pauses the body when it must not read on.
   * @param last nothing follows
   */
  add(account: BodyAccount, bytes: number, last: boolean): void {
    if (account.state === "empty") {
      const pool = this.#poolOf(account, bytes);
      account.pool = pool;
      if (last) {
        // The usual case: a body in one piece. It can neither wait nor stall, so nobody needs to find it.
        account.state = "complete";
        account.held = bytes;
        pool.used += bytes;
        if (pool.short) this.onShort();
        return;
      }
      this.#join(account, pool);
    }
    // More than was announced.
    else if (account.state === "complete") this.#reopen(account);
    this.#charge(account, bytes);
    if (account.pool === this.#reserve && !this.#staysSmall(account)) this.#moveToMain(account);
    const main = this.#main;
    if (account.pool === main && this.#busy > main.limit && account === this.#oldest()) this.#beyond = account;
    if (last) this.complete(account);
    else if (account.pool === main && account.state === "reading" && !this.#mayRead(account)) this.#pause(account);
    if (account.pool!.short) this.onShort();
  }

  /** The body has ended: what is behind it must flow again. Its bytes stay accounted. */
  complete(account: BodyAccount): void {
    const { state } = account;
    if (state !== "reading" && state !== "paused") return;
    account.state = "complete";
    this.#unlist(account, account.pool!);
    this.#forgetPromise(account);
    if (state === "paused") this.#unpause(account);
    if (this.#paused.size > 0) this.#resumeSome();
  }

  /** Takes `bytes` only if they fit; never pauses. For buffers that can be given up instead. */
  tryAdd(account: BodyAccount, bytes: number): boolean {
    if (this.#main.used + bytes > this.#main.limit) return false;
    if (account.state === "empty") {
      account.state = "complete";
      account.pool = this.#main;
    } else if (account.pool === this.#reserve) this.#moveToMain(account);
    this.#charge(account, bytes);
    if (this.#main.short) this.onShort();
    return true;
  }

  /** Gives back everything the account has; doing so twice does nothing. */
  release(account: BodyAccount): void {
    const { pool, state } = account;
    if (pool === undefined) return;
    this.#leave(account, pool);
    account.pool = undefined;
    account.state = "empty";
    account.held = 0;
    if (pool === this.#main) this.#releases++;
    this.#forgetPromise(account);
    if (state === "paused") this.#unpause(account);
    if (account === this.#beyond || this.#busy <= this.#main.limit) this.#beyond = undefined;
    if (pool === this.#main && this.#paused.size > 0) this.#resumeSome();
  }

  /**
   * A tenth of the window has passed, and what had arrived by then was read. Lets bodies go that stall in a pool that is
   * short, slowest first, until it no longer is. The main pool is short, too, while a body waits: room is kept for the rest
   * of bodies that bring nothing.
   * @returns who was let go
   */
  tick(): readonly HolderReport[] {
    const gone: HolderReport[] = [];
    for (const pool of [this.#main, this.#reserve]) {
      const slow = this.#slowOf(pool);
      // The slowest first; of equals the one that gives back most.
      slow.sort((a, b) => b.slowTicks - a.slowTicks || b.held - a.held);
      for (const account of slow) {
        if (!pool.short && (pool !== this.#main || this.#paused.size === 0)) break;
        if (account.state !== "reading") continue;
        gone.push(this.#reportOf(account));
        account.holder.letGo();
        this.release(account);
      }
    }
    // Whoever was stopped meanwhile takes less room than before.
    if (this.#paused.size > 0) this.#resumeSome();
    return gone;
  }

  /** Bytes of the main pool in bodies that are still being received, or that wait. */
  get unfinished(): number {
    let sum = 0;
    for (const { held } of this.#main.members) sum += held;
    return sum;
  }

  /** Who holds most of the main pool, of the bodies that are not complete. @param count at most this many */
  topHolders(count: number): readonly HolderReport[] {
    return [...this.#main.members]
      .sort((a, b) => b.held - a.held)
      .slice(0, count)
      .map((account) => this.#reportOf(account));
  }

  #reportOf(account: BodyAccount): HolderReport {
    const { address, held, state, slowTicks } = account;
    const slowFor = slowTicks * (this.settings.window / TICKS_PER_WINDOW);
    return { address, requestId: account.holder.requestId, bytes: held, state, slowFor };
  }

  #poolOf(account: BodyAccount, bytes: number): Pool {
    const { small } = this.settings;
    const reserve = this.#reserve;
    return bytes <= small && account.expected <= small && reserve.used + bytes <= reserve.limit ? reserve : this.#main;
  }

  #staysSmall(account: BodyAccount): boolean {
    const reserve = this.#reserve;
    return account.held <= this.settings.small && reserve.used <= roomFor(account.party, reserve);
  }

  #moveToMain(account: BodyAccount): void {
    const isMember = this.#reserve.members.has(account);
    this.#leave(account, this.#reserve);
    account.pool = this.#main;
    if (isMember) this.#joinMembers(account, this.#main);
    this.#main.used += account.held;
    if (account.party !== undefined) account.party.held += account.held;
  }

  /** The first piece of several. */
  #join(account: BodyAccount, pool: Pool): void {
    account.state = "reading";
    account.mark = 0;
    account.slowTicks = 0;
    this.#joinMembers(account, pool);
  }

  #reopen(account: BodyAccount): void {
    const { pool, held } = account;
    account.state = "reading";
    account.slowTicks = 0;
    account.mark = held;
    this.#joinMembers(account, pool!);
    if (account.party !== undefined) account.party.held += held;
  }

  #joinMembers(account: BodyAccount, pool: Pool): void {
    pool.members.add(account);
    const { address } = account;
    if (address === "") return;
    let party = pool.parties.get(address);
    if (party === undefined) {
      party = { address, held: 0, bodies: 0 };
      pool.parties.set(address, party);
    }
    party.bodies++;
    account.party = party;
  }

  #leave(account: BodyAccount, pool: Pool): void {
    pool.used -= account.held;
    this.#unlist(account, pool);
  }

  #unlist(account: BodyAccount, pool: Pool): void {
    const { party, held } = account;
    pool.members.delete(account);
    if (party === undefined) return;
    party.held -= held;
    if (--party.bodies === 0) pool.parties.delete(party.address);
    account.party = undefined;
  }

  #charge(account: BodyAccount, bytes: number): void {
    account.held += bytes;
    account.pool!.used += bytes;
    if (account.party !== undefined) account.party.held += bytes;
    const kept = Math.min(account.promised, bytes);
    account.promised -= kept;
    this.#promised -= kept;
  }

  #forgetPromise(account: BodyAccount): void {
    this.#promised -= account.promised;
    account.promised = 0;
  }

  #mayRead(account: BodyAccount): boolean {
    return account.promised > 0 || this.#busy <= this.#roomFor(account) || account === this.#oldest();
  }

  /** Bytes of the main pool that take room. */
  get #busy(): number {
    return this.#main.used - this.#parked + this.#promised;
  }

  #pause(account: BodyAccount): void {
    account.state = "paused";
    account.parked = Math.min(account.held, this.#mostParked);
    this.#parked += account.parked;
    this.#paused.add(account);
    account.holder.pause();
  }

  /** It is no longer one of those that wait, whatever it is now. */
  #unpause(account: BodyAccount): void {
    this.#parked -= account.parked;
    account.parked = 0;
    this.#paused.delete(account);
    account.holder.resume();
  }

  /** How much of the main pool may be in use for this body to read on. */
  #roomFor({ held, expected, party }: BodyAccount): number {
    const { limit } = this.#main;
    const room = roomFor(party, this.#main);
    return Math.max(held, expected) * SHARE.body.own > limit ? room - limit / SHARE.body.spare : room;
  }

  /** The body that may go on beyond the limit: the first in the order of arrival, unless another one went beyond it. */
  #oldest(): BodyAccount | undefined {
    if (this.#beyond !== undefined) return this.#beyond;
    for (const first of this.#main.members) return first;
    return undefined;
  }

  /** Bodies may go on: the oldest in any case, others in the order of their waiting, as far as there is room for them. */
  #resumeSome(): void {
    const oldest = this.#oldest();
    if (oldest?.state === "paused") this.#resume(oldest, 0);
    const { limit } = this.#main;
    for (const account of this.#paused) {
      if (this.#busy >= limit) return;
      const rest = Math.max(account.expected - account.held, this.#mostParked);
      if (this.#busy + account.parked + rest <= this.#roomFor(account)) this.#resume(account, rest);
    }
  }

  /** @param promised bytes that room is kept for */
  #resume(account: BodyAccount, promised: number): void {
    account.state = "reading";
    account.mark = account.held;
    account.slowTicks = 0;
    account.promised = promised;
    this.#promised += promised;
    this.#unpause(account);
  }

  /** Who has brought too little for a whole window. */
  #slowOf(pool: Pool): BodyAccount[] {
    const slow: BodyAccount[] = [];
    const { minRate, window } = this.settings;
    const least = (minRate * window) / 1000;
    const isSpent = pool === this.#main && this.#busy > pool.limit;
    const oldest = isSpent ? this.#oldest() : undefined;
    const ofOldest = least * Math.max(1, Math.min(MOST_WAITING_COUNTED, this.#paused.size));
    for (const account of pool.members) {
      if (account.state !== "reading") continue;
      if (account.held - account.mark >= (account === oldest ? ofOldest : least)) {
        account.mark = account.held;
        account.slowTicks = 0;
      } else if (++account.slowTicks >= TICKS_PER_WINDOW) slow.push(account);
    }
    return slow;
  }
}

/** How much of a pool may be in use for a body of this address to read on. */
function roomFor(party: Party | undefined, { limit }: Pool): number {
  return party !== undefined && party.held * SHARE.address.own > limit ? limit - limit / SHARE.address.spare : limit;
}
