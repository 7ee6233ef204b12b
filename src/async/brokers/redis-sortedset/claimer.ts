import { randomBytes } from "node:crypto";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { Redis } from "../../../base/redis/connection.ts";
import { AnswerLost } from "../../../base/redis/reply-error.ts";
import type { Claim, ClaimRequest, ClaimResult } from "../broker.ts";
import { readEntry, unreadableResult } from "../intake.ts";
import type { Message } from "../messages/message.ts";
import { UnreadableMessage } from "../messages/request.ts";
import type { QueueSettings, RedisSortedSetSettings } from "../settings.ts";
import type { StoreClock } from "../store-clock.ts";
import { ANSWERED_PREFIX, CANCEL_PREFIX, claimsKey, leasesKey, ownersKey } from "./keys.ts";
import type { LostAnswers } from "./lost-answers.ts";
import { CLAIM } from "./scripts.ts";
import type { QueueServer, SortedSetDeps } from "./server.ts";
import { MOST_BYTES, SettleBatch } from "./settle-batch.ts";

/** Most entries of each sort that one claim takes: this bounds how long a claim of any size occupies the server. */
const MOST_CLAIMED = 1000;
/** How often a claim is tried again with a new owner in a store that keeps losing data. */
const OWNERS_PER_CLAIM = 3;

type ClaimAnswer = readonly (string | number | null)[];

/** The outcome of the entries that a claim took. */
interface Admitted {
  readonly claims: readonly Claim[];
  /** Claims whose cancel mark the script has not read. */
  readonly unasked: readonly Claim[];
  /** Entries that go back, or to the dead letters. */
  readonly aside: SettleBatch;
  /** The reasons of the dead letters. */
  readonly reasons: readonly string[];
  /** Claims in `aside` whose message has its result. */
  answered: number;
}

/** Claims messages, under ids that no other process and no earlier claim has had. */
export class Claimer {
  readonly #server: QueueServer;
  readonly #settings: RedisSortedSetSettings;
  readonly #deps: SortedSetDeps;
  readonly #lost: LostAnswers;
  readonly #storeClock: StoreClock;
  /**
   * The begin of every claim id: no two processes share it, so no id is ever used twice. A new one follows when the store has
   * lost data: the numbers of the old one then prove nothing about the store.
   */
  #owner = newOwner();
  /** For each queue: number of this owner's last claim that was answered. */
  #made = new Map<QueueSettings, number>();
  #nextClaim = 1;

  constructor(
    server: QueueServer,
    settings: RedisSortedSetSettings,
    deps: SortedSetDeps,
    lost: LostAnswers,
    storeClock: StoreClock,
  ) {
    this.#server = server;
    this.#settings = settings;
    this.#deps = deps;
    this.#lost = lost;
    this.#storeClock = storeClock;
  }

  async claim(queue: QueueSettings, request: ClaimRequest): Promise<ClaimResult> {
    for (let owners = 0; owners < OWNERS_PER_CLAIM; owners++) {
      await this.#server.sure();
      const owner = this.#owner;
      const result = await this.#claim(this.#server.usable(), queue, request);
      if (result !== undefined) return result;
      if (this.#owner === owner) {
        this.#owner = newOwner();
        this.#made = new Map();
      }
      this.#server.doubtLeases();
    }
    throw new SluiceError("BROKER_UNAVAILABLE", "the store loses data repeatedly: claims pause");
  }

  /** Undefined: nothing was claimed, because the store does not know the last claim of this owner. */
  async #claim(redis: Redis, queue: QueueSettings, { max, expired }: ClaimRequest): Promise<ClaimResult | undefined> {
    const owner = this.#owner;
    const live = Math.min(max, MOST_CLAIMED);
    const late = Math.min(expired, MOST_CLAIMED);
    const first = this.#nextClaim;
    this.#nextClaim += live + late;
    const at = this.#deps.clock.now();
    const script = redis.run(
      CLAIM,
      [queue.name, claimsKey(queue.name), leasesKey(queue.name), ownersKey(queue.name)],
      [
        ...[String(live), String(late), owner, String(first), String(this.#settings.leases.claimTtl)],
        ...[CANCEL_PREFIX, String(MOST_BYTES), String(this.#made.get(queue) ?? 0)],
      ],
    );
    let answer: ClaimAnswer;
    let waiting: number;
    try {
      // The claims stay claims, even when the server does not say how many entries are left.
      const armed = this.#server.arm(redis, queue).catch(() => Number.NaN);
      [answer, waiting] = (await Promise.all([script, armed])) as [typeof answer, typeof waiting];
    } catch (error) {
      if (!(error instanceof AnswerLost)) throw error;
      const claimIds = Array.from({ length: live + late }, (_, i) => owner + (first + i));
      const until = this.#deps.clock.now() + this.#settings.leases.claimTtl;
      this.#lost.claimed({ queue, claimIds, until });
      throw error;
    }
    if ((answer[0] as number) < 0) return undefined;
    this.#storeClock.heardFirst(answer[0] as number, at);
    const made = (answer.length - 1) / 2;
    if (made > 0 && owner === this.#owner)
      this.#made.set(queue, Math.max(first + made - 1, this.#made.get(queue) ?? 0));
    const admitted = this.#admit(queue, answer, owner, first, live);
    const claims = await this.#marked(redis, queue, admitted);
    if (admitted.aside.size > 0) await this.#setAside(redis, queue, admitted);
    return { claims, waiting, time: answer[0] as number };
  }

  /**
   * Makes claims of the script's answer, and sorts out entries that are none.
   * @param first number of the first claim
   * @param live wanted messages whose deadline lies ahead
   */
  #admit(queue: QueueSettings, answer: ClaimAnswer, owner: string, first: number, live: number): Admitted {
    const time = answer[0] as number;
    const claims: Claim[] = [];
    const unasked: Claim[] = [];
    const aside = new SettleBatch(this.#settings);
    const reasons: string[] = [];
    let answered = 0;
    let room = live;
    for (let i = 1; i < answer.length; i += 2) {
      const text = answer[i] as string;
      const id = owner + (first + (i - 1) / 2);
      let message: Message;
      try {
        message = readEntry(text, queue);
      } catch (error) {
        if (!(error instanceof UnreadableMessage)) throw error;
        const result = unreadableResult(error);
        const named = error.resultQueueName;
        aside.bury(queue, id, error.message, { named, runOut: false, ...(result === undefined ? {} : { result }) });
        reasons.push(error.message);
        continue;
      }
      const { routing, request } = message;
      // The script may be wrong about a deadline; a surplus message goes back.
      if (request.deadline * 1000 >= time && room-- <= 0) {
        aside.giveBack(queue, id);
        continue;
      }
      const asked = routing.requestToken === "" || markedId(text) === request.id;
      const mark = asked && routing.requestToken !== "" ? answer[i + 1] : undefined;
      if (mark === ANSWERED_PREFIX + routing.requestToken) {
        aside.drop(queue, id);
        answered++;
        continue;
      }
      const cancelled = mark === routing.requestToken;
      const claim: Claim = { id, queue, message, cancelled, publishedAt: Number.NaN, entry: text, lost: false };
      claims.push(claim);
      if (!asked) unasked.push(claim);
    }
    return { claims, unasked, aside, reasons, answered };
  }

  /**
   * Asks for the marks that the script has not read; none when the server cannot be asked, because workers ask again before
   * they send.
   */
  async #marked(redis: Redis, queue: QueueSettings, admitted: Admitted): Promise<readonly Claim[]> {
    const { claims, unasked, aside } = admitted;
    if (unasked.length === 0) return claims;
    const ids = unasked.map(({ message }) => message.request.id);
    const marks = await readMarks(redis, ids).catch(() => new Map<string, unknown>());
    const asked = new Set(unasked);
    const left: Claim[] = [];
    for (const claim of claims) {
      const mark = asked.has(claim) ? marks.get(claim.message.request.id) : undefined;
      if (mark === ANSWERED_PREFIX + tokenOf(claim)) {
        aside.drop(queue, claim.id);
        admitted.answered++;
      } else left.push(mark === tokenOf(claim) ? { ...claim, cancelled: true } : claim);
    }
    return left;
  }

  /** A failure leaves the claims to their leases: the process that reclaims them reaches the same outcome. */
  async #setAside(redis: Redis, queue: QueueSettings, { aside, reasons, answered }: Admitted): Promise<void> {
    const { log } = this.#deps;
    if (answered > 0)
      log.info(
        { queue: queue.name, count: answered },
        "dropped messages that already have their results, but were still in the store",
      );
    try {
      await this.#server.settle(redis, aside, [queue]);
    } catch (error) {
      log.warn({ queue: queue.name, problem: messageOf(error) }, "some entries stay claimed until their leases end");
      return;
    }
    for (const reason of reasons) this.#server.events?.deadLettered(queue, reason);
  }
}

/** For each claim: whether there is a mark to cancel it. @throws SluiceError of the connection */
export async function areCancelled(redis: Redis, claims: readonly Claim[]): Promise<readonly boolean[]> {
  const ids = claims.filter((claim) => tokenOf(claim) !== "").map(({ message }) => message.request.id);
  const marks = await readMarks(redis, ids);
  return claims.map((claim) => tokenOf(claim) !== "" && marks.get(claim.message.request.id) === tokenOf(claim));
}

const DATA_ID = '"data":{"id":"';

/** The request id whose cancel mark claim.lua has read; undefined when it found none. */
export function markedId(entry: string): string | undefined {
  const from = entry.indexOf(DATA_ID);
  if (from < 0) return undefined;
  const start = from + DATA_ID.length;
  const end = entry.indexOf('"', start);
  return end < 0 ? undefined : entry.slice(start, end);
}

/** Cancel marks by request id. */
async function readMarks(redis: Redis, ids: readonly string[]): Promise<ReadonlyMap<string, unknown>> {
  if (ids.length === 0) return new Map();
  const marks = await redis.send(["MGET", ...ids.map((id) => CANCEL_PREFIX + id)]);
  return new Map(ids.map((id, i) => [id, (marks as readonly unknown[])[i]]));
}

function tokenOf({ message }: Claim): string {
  return message.routing.requestToken;
}

function newOwner(): string {
  return `${randomBytes(12).toString("base64url")}:`;
}
