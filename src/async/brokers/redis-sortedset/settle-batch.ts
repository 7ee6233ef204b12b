import type { Claim, Settlement } from "../broker.ts";
import { resultRoute } from "../intake.ts";
import { encodeEnvelope } from "../messages/envelope.ts";
import type { ResultMessage } from "../messages/message.ts";
import { encodeResult } from "../messages/result.ts";
import type { QueueSettings, RedisSortedSetSettings } from "../settings.ts";
import { ACTIVE_PREFIX, CANCEL_PREFIX, claimsKey, deadKey, keyNumbers, leasesKey, ownersKey } from "./keys.ts";

/**
 * Bytes of entries after which a claim stops, and characters of texts after which a call is split: this bounds how long the
 * server is occupied.
 */
export const MOST_BYTES = 4 * 1024 * 1024;

type Names = Pick<RedisSortedSetSettings, "queues" | "resultQueueName" | "retryQueueName">;
type Labels = Readonly<Record<string, string>>;

const reservedKeys = new WeakMap<Names, ReadonlySet<string>>();

/**
 * Keys that no message may name for its result: a list under the name of a queue that is empty at the moment would destroy that
 * queue (H-17).
 */
function reserved(names: Names): ReadonlySet<string> {
  let keys = reservedKeys.get(names);
  if (keys === undefined) {
    const { queues, retryQueueName } = names;
    keys = new Set([
      ...[retryQueueName, deadKey(retryQueueName)],
      ...queues.flatMap(({ name }) => [name, claimsKey(name), leasesKey(name), deadKey(name), ownersKey(name)]),
    ]);
    reservedKeys.set(names, keys);
  }
  return keys;
}

/** Keys and arguments of one run of the settlement script. */
export class SettleBatch {
  readonly keys: string[] = [];
  readonly args: string[] = [ACTIVE_PREFIX, CANCEL_PREFIX];
  /** Settlements in it. */
  size = 0;
  /** Characters of the texts in it. */
  volume = 0;
  readonly #names: Names;
  /** Number of a queue's first key. */
  readonly #group = keyNumbers(this.keys, (name) => [
    ...[name, claimsKey(name), leasesKey(name), deadKey(name), ownersKey(name)],
  ]);
  readonly #target = keyNumbers(this.keys, (name) => [name]);

  constructor(names: Names) {
    this.#names = names;
  }

  add(settlement: Settlement): void {
    const { claim } = settlement;
    const { queue, message } = claim;
    const named = message.routing.resultQueueName;
    switch (settlement.kind) {
      case "result": {
        const recovered = claim.recovered === true;
        const text = encodeResult(recovered ? { ...settlement.result, recovered } : settlement.result);
        this.#write(recovered ? "recovered" : "result", claim, this.#results(queue, named), text, "");
        return;
      }
      case "retry": {
        const routing = { ...message.routing, retryCount: settlement.retryCount, labels: settlement.labels };
        const target = this.#target(this.#names.retryQueueName);
        this.#write("retry", claim, target, encodeEnvelope({ ...message, routing }), String(settlement.due));
        return;
      }
      case "refuse":
        this.#row("refuse", queue, claim.id, "0", changedEnvelope(claim, settlement.labels), "", "", "");
        return;
      case "dead":
        this.#write("dead", claim, this.#results(queue, named), encodeResult(settlement.result), settlement.reason);
    }
  }

  /** Puts a claim back into its queue as it was: a leftover, or a surplus message. */
  giveBack(queue: QueueSettings, claimId: string): void {
    this.#row("refuse", queue, claimId, "0", "", "", "", "");
  }

  /** Removes a claim of a message that has its result; nothing is written. */
  drop(queue: QueueSettings, claimId: string): void {
    this.#row("drop", queue, claimId, "0", "", "", "", "");
  }

  /** Puts a claim whose lease ran out back into its queue. @param envelope that counts the lost lease */
  requeue(queue: QueueSettings, claimId: string, envelope: string): void {
    this.#row("requeue", queue, claimId, "0", envelope, "", "", "");
  }

  /**
   * Makes a dead letter of a claim that never was a message, or that is given up.
   * @param named result queue that it names, or ""
   * @param result undefined = the owner is unknown
   * @param runOut true: only if its lease has run out
   */
  bury(
    queue: QueueSettings,
    claimId: string,
    reason: string,
    { named, result, token, runOut }: { named: string; result?: ResultMessage; token?: string; runOut: boolean },
  ): void {
    const what = runOut ? "bury" : "dead";
    if (result === undefined) this.#row(what, queue, claimId, "0", "", reason, "", "");
    else {
      const target = this.#results(queue, named);
      this.#row(what, queue, claimId, target, encodeResult(result), reason, result.id, token ?? "");
    }
  }

  #write(what: string, { id, queue, message }: Claim, target: string, text: string, extra: string): void {
    this.#row(what, queue, id, target, text, extra, message.request.id, message.routing.requestToken);
  }

  #row(
    what: string,
    queue: QueueSettings,
    claimId: string,
    target: string,
    text: string,
    extra: string,
    requestId: string,
    token: string,
  ): void {
    this.args.push(what, this.#group(queue.name), claimId, target, text, extra, requestId, token);
    this.size++;
    this.volume += text.length;
  }

  /** @param named by the message, or "" */
  #results(queue: QueueSettings, named: string): string {
    const allowed = reserved(this.#names).has(named) ? "" : named;
    return this.#target(resultRoute(queue, allowed, this.#names.resultQueueName));
  }
}

/** "" when nothing has changed: the entry then goes back byte for byte, to the same place among equal scores. */
function changedEnvelope({ message }: Claim, labels: Labels): string {
  const before = message.routing.labels;
  if (before === labels) return "";
  const names = Object.keys(labels);
  if (names.length === Object.keys(before).length && names.every((name) => labels[name] === before[name])) return "";
  return encodeEnvelope({ ...message, routing: { ...message.routing, labels } });
}
