import { type BodyAccount, type HolderReport, type Party, Pool } from "./body-account.ts";

/** Sizes in bytes. Each field has a flag in `commands/common/exchange-flags.ts`. */
export interface BudgetSettings {
  /** The most bytes of all bodies that are not small, together. */
  readonly limit: number;
  /** The most bytes of a small body; 0 = no body is small. */
  readonly small: number;
  /** The most bytes of all small bodies together, beside `limit`. */
  readonly reserve: number;
  /** Bytes per second. A body that receives less over the window stalls. */
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

/** The number of calls of `tick` per window. */
export const TICKS_PER_WINDOW = 10;

/**
 * A share. An owner that holds more than `limit / own` must leave `limit / spare` of a pool to the others. An owner within its
 * shares may use the whole pool, so bodies of an owner above its share never fill it.
 */
const SHARE = {
  /** Of one body, in the main pool. */
  body: { own: 64, spare: 4 },
  /** Of one client address, in both pools. */
  address: { own: 4, spare: 8 },
} as const;

/** The most bytes of a waiting body that take no room from others: bytes that it held when it was paused. */
const MOST_PARKED = 128 * KiB;

/**
 * While other bodies wait for the oldest one, the oldest must receive the minimum rate once for each of them, up to this many.
 */
const MOST_WAITING_COUNTED = 64;

/**
 * Counts the bytes of all bodies that the process holds, buffered or kept for a retry.
 *
 * A body of at most `small` bytes counts in the reserve. It waits only when the reserve and the main pool are both full. A
 * longer body counts in the main pool.
 *
 * When the main pool is full, every body in it pauses except the oldest, which goes on to its end. So half-read bodies cannot
 * block each other for ever.
 *
 * The bytes held have a bound: `limit + reserve`, the rest of one body, and 128 KiB and a piece for each body that waits.
 * Bodies that arrive in one piece are not in this bound: they have arrived before the budget can refuse them.
 *
 * The bytes that a body held when it was paused take no room from others. Otherwise the beginnings of many waiting bodies would
 * fill the pool. A body goes on only when there is room for the rest of it. Otherwise all waiting bodies would go on for a
 * moment and none would end.
 *
 * The budget reads no clock: its time is the number of `tick` calls.
 */
export class ByteBudget {
  readonly settings: BudgetSettings;
  /** Called when a pool becomes short. From that call until `short` is false, the owner must call `tick`. */
  onShort: () => void = () => {};
  readonly #main: Pool;
  readonly #reserve: Pool;
  /** Paused members of the main pool; the one that waits longest is first. */
  readonly #paused = new Set<BodyAccount>();
  /** The one body that went on beyond the limit, until it is released or the main pool is within its limit. */
  #beyond: BodyAccount | undefined;
  readonly #mostParked: number;
  /** The sum of `parked` of all bodies. */
  #parked = 0;
  #promised = 0;
  #releases = 0;

  constructor(settings: Partial<BudgetSettings> = {}) {
    this.settings = { ...BUDGET_DEFAULTS, ...settings };
    this.#main = new Pool(this.settings.limit);
    this.#reserve = new Pool(this.settings.reserve);
    this.#mostParked = Math.min(MOST_PARKED, Math.floor(this.settings.limit / SHARE.body.own));
  }

  /** The reason in the answer to the client of a stalled body. */
  get stallReason(): string {
    const { minRate, window } = this.settings;
    return `the request body stalled: less than ${minRate} bytes/s for ${window / 1000} s while other requests need the memory; send the request again`;
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

  /**
   * The number of client addresses in both pools. An address with bodies in both pools counts twice. Never more than the number
   * of incomplete bodies.
   */
  get addresses(): number {
    return this.#main.parties.size + this.#reserve.parties.size;
  }

  /** The number of releases of bytes from the main pool. The budget does not move while this number stays the same. */
  get releases(): number {
    return this.#releases;
  }

  /** Whether a pool is more than half full, or a body waits. */
  get short(): boolean {
    return this.#main.short || this.#reserve.short || this.#paused.size > 0;
  }

  /** Counts `bytes` that were already received, and pauses the body when it must not read on. @param last no bytes follow */
  add(account: BodyAccount, bytes: number, last: boolean): void {
    if (account.state === "empty") {
      const pool = this.#poolOf(account, bytes);
      account.pool = pool;
      if (last) {
        // The usual case: a body in one piece. It can neither wait nor stall, so it does not become a member.
        account.state = "complete";
        account.held = bytes;
        pool.used += bytes;
        if (pool.short) this.onShort();
        return;
      }
      this.#join(account, pool);
    }
    // More bytes came than the headers announced.
    else if (account.state === "complete") this.#reopen(account);
    this.#charge(account, bytes);
    if (account.pool === this.#reserve && !this.#staysSmall(account)) this.#moveToMain(account);
    const main = this.#main;
    if (account.pool === main && this.#busy > main.limit && account === this.#oldest()) this.#beyond = account;
    if (last) this.complete(account);
    else if (account.pool === main && account.state === "reading" && !this.#mayRead(account)) this.#pause(account);
    if (account.pool!.short) this.onShort();
  }

  /** Marks a body as complete. Its own stream goes on if it was paused, and other bodies may go on. Its bytes still count. */
  complete(account: BodyAccount): void {
    const { state } = account;
    if (state !== "reading" && state !== "paused") return;
    account.state = "complete";
    this.#unlist(account, account.pool!);
    this.#forgetPromise(account);
    if (state === "paused") this.#unpause(account);
    if (this.#paused.size > 0) this.#resumeSome();
  }

  /**
   * Counts `bytes` if they fit in the main pool; never pauses. For buffers that the caller can drop.
   * @returns whether they fit
   */
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

  /** Frees all bytes of the account. A second call does nothing. */
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
   * A tenth of the window has passed, and all bytes that had arrived by then were read. Ends stalled bodies of a short pool,
   * the slowest first, until the pool is no longer short. The main pool is short also while a body waits, because stalled
   * bodies keep room for the rest of their bytes.
   * @returns the bodies that were ended
   */
  tick(): readonly HolderReport[] {
    const gone: HolderReport[] = [];
    for (const pool of [this.#main, this.#reserve]) {
      const slow = this.#slowOf(pool);
      // The slowest is first; of equally slow ones, the one that frees most bytes.
      slow.sort((a, b) => b.slowTicks - a.slowTicks || b.held - a.held);
      for (const account of slow) {
        if (!pool.short && (pool !== this.#main || this.#paused.size === 0)) break;
        if (account.state !== "reading") continue;
        gone.push(this.#reportOf(account));
        account.holder.letGo();
        this.release(account);
      }
    }
    // Bodies that were paused since then take less room than before.
    if (this.#paused.size > 0) this.#resumeSome();
    return gone;
  }

  /** Bytes of the main pool in bodies that are not complete. */
  get unfinished(): number {
    let sum = 0;
    for (const { held } of this.#main.members) sum += held;
    return sum;
  }

  /** Returns the incomplete bodies that hold most bytes of the main pool. @param count at most this many */
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

  /** Called at the first of several pieces. */
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

  /** Bytes of the main pool that take room: held and promised bytes without the parked ones. */
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

  /** Takes the body out of the waiting ones; its new state is already set. */
  #unpause(account: BodyAccount): void {
    this.#parked -= account.parked;
    account.parked = 0;
    this.#paused.delete(account);
    account.holder.resume();
  }

  /** The most bytes of the main pool that may be in use while this body reads on. */
  #roomFor({ held, expected, party }: BodyAccount): number {
    const { limit } = this.#main;
    const room = roomFor(party, this.#main);
    return Math.max(held, expected) * SHARE.body.own > limit ? room - limit / SHARE.body.spare : room;
  }

  /** The body that may go on beyond the limit: the one that already did, else the first to arrive. */
  #oldest(): BodyAccount | undefined {
    if (this.#beyond !== undefined) return this.#beyond;
    for (const first of this.#main.members) return first;
    return undefined;
  }

  /** Lets paused bodies go on: the oldest always, the others in the order of their waiting while there is room for them. */
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

  /** @param promised bytes for which the pool keeps room */
  #resume(account: BodyAccount, promised: number): void {
    account.state = "reading";
    account.mark = account.held;
    account.slowTicks = 0;
    account.promised = promised;
    this.#promised += promised;
    this.#unpause(account);
  }

  /** Bodies that received too little for a whole window. */
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

/** The most bytes of a pool that may be in use while a body of this address reads on. */
function roomFor(party: Party | undefined, { limit }: Pool): number {
  return party !== undefined && party.held * SHARE.address.own > limit ? limit - limit / SHARE.address.spare : limit;
}
