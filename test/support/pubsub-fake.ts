import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData, status } from "@grpc/grpc-js";
import type { Clock, Timer } from "../../src/base/clock/clock.ts";
import { ackError, pubsubService } from "./pubsub-protos.ts";

export type PubSubMethod = "Publish" | "Pull" | "Acknowledge" | "ModifyAckDeadline" | "GetSubscription" | "GetTopic";

export interface SubscriptionOptions {
  readonly topic: string;
  /** Seconds, as the service takes it: 10 to 600; default 10. */
  readonly ackDeadlineSeconds?: number;
  /** Stale ack ids are refused by name. */
  readonly exactlyOnce?: boolean;
  /** Deliveries are counted. */
  readonly deadLetters?: boolean;
}

export interface Fault {
  /** A gRPC status. */
  readonly code: number;
  /** Calls that fail; default 1. */
  readonly times?: number;
  /** The call takes effect all the same: only its answer is lost. */
  readonly answerLost?: boolean;
  /** Only calls whose request this says yes to. */
  readonly when?: (request: PubSubRequest) => boolean;
}

/** Members of all requests together. */
export interface PubSubRequest {
  readonly subscription: string;
  readonly topic: string;
  readonly maxMessages: number;
  readonly ackIds: readonly string[];
  readonly ackDeadlineSeconds: number;
  readonly messages: readonly { readonly data: Buffer; readonly attributes: Readonly<Record<string, string>> }[];
}

interface Entry {
  readonly messageId: string;
  readonly data: Buffer;
  readonly attributes: Readonly<Record<string, string>>;
  readonly publishedAt: number;
  attempts: number;
  lease: { readonly ackId: string; timer: Timer } | undefined;
}

interface Sub {
  readonly options: SubscriptionOptions;
  readonly entries: Set<Entry>;
  readonly waiting: Set<{ readonly max: number; answer(entries: object[]): void }>;
}

type Reply = sendUnaryData<object>;

/** How long a pull waits for messages, milliseconds: somewhat longer than the client's patience. */
const PULL_WAIT = 90_000;

/**
 * A small Pub/Sub service on the loopback interface, for Google's own client: leases run out by the clock it is given,
 * and calls fail, hang or lose their answers when a test says so. Where the real service promises little, it keeps no
 * more: an ack id whose lease ran out acknowledges nothing.
 */
export class PubSubFake {
  /** `host:port`. */
  readonly endpoint: string;
  readonly calls: { readonly method: PubSubMethod; readonly request: PubSubRequest }[] = [];
  readonly #server: Server;
  readonly #clock: Clock;
  readonly #topics = new Map<string, string[]>();
  readonly #subscriptions = new Map<string, Sub>();
  readonly #faults = new Map<PubSubMethod, (Fault & { left: number })[]>();
  readonly #held = new Map<PubSubMethod, (() => void)[]>();
  #ids = 0;

  private constructor(server: Server, clock: Clock, port: number) {
    this.#server = server;
    this.#clock = clock;
    this.endpoint = `127.0.0.1:${port}`;
  }

  static async start(clock: Clock): Promise<PubSubFake> {
    const server = new Server({ "grpc.max_receive_message_length": 64 << 20 });
    const port = await new Promise<number>((resolve, reject) =>
      server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
        error === null ? resolve(bound) : reject(error),
      ),
    );
    const fake = new PubSubFake(server, clock, port);
    server.addService(pubsubService("Publisher"), {
      Publish: fake.#method("Publish", (request, reply) => fake.#onPublish(request, reply)),
      GetTopic: fake.#method("GetTopic", ({ topic }, reply) =>
        fake.#topics.has(last(topic)) ? reply(null, { name: topic }) : notFound(reply, topic),
      ),
    });
    server.addService(pubsubService("Subscriber"), {
      Pull: fake.#method("Pull", (request, reply, call) => fake.#onPull(request, reply, call)),
      Acknowledge: fake.#method("Acknowledge", (request, reply) => fake.#onAck(request, reply)),
      ModifyAckDeadline: fake.#method("ModifyAckDeadline", (request, reply) => fake.#onModify(request, reply)),
      GetSubscription: fake.#method("GetSubscription", (request, reply) => fake.#onGet(request, reply)),
    });
    return fake;
  }

  topic(id: string): void {
    this.#topics.set(id, []);
  }

  subscription(id: string, options: SubscriptionOptions): void {
    this.#subscriptions.set(id, { options, entries: new Set(), waiting: new Set() });
  }

  /** What was published to a topic, in order. */
  published(topic: string): readonly string[] {
    return this.#topics.get(topic)!;
  }

  /** Publishes as a producer does. @returns the message id */
  publish(topic: string, data: string | Buffer, attributes: Readonly<Record<string, string>> = {}): string {
    const messageId = `message-${++this.#ids}`;
    this.#topics.get(topic)!.push(data.toString());
    for (const sub of this.#subscriptions.values()) {
      if (sub.options.topic !== topic) continue;
      const bytes = Buffer.from(data);
      const publishedAt = this.#clock.wall();
      sub.entries.add({ messageId, data: bytes, attributes, publishedAt, attempts: 0, lease: undefined });
      this.#serve(sub);
    }
    return messageId;
  }

  /** Delivers a message that is not acknowledged once more, whoever has it. */
  deliverAgain(subscription: string, messageId: string): void {
    const sub = this.#subscriptions.get(subscription)!;
    const entry = [...sub.entries].find((other) => other.messageId === messageId)!;
    sub.entries.add({ ...entry, lease: undefined });
    this.#serve(sub);
  }

  /** Messages that nobody has acknowledged. */
  backlog(subscription: string): number {
    return this.#subscriptions.get(subscription)!.entries.size;
  }

  /** Messages that somebody holds. */
  leased(subscription: string): number {
    return [...this.#subscriptions.get(subscription)!.entries].filter(({ lease }) => lease !== undefined).length;
  }

  /** Pulls that wait for messages now. */
  waiting(subscription: string): number {
    return this.#subscriptions.get(subscription)!.waiting.size;
  }

  fail(method: PubSubMethod, fault: Fault): void {
    const faults = this.#faults.get(method) ?? [];
    faults.push({ ...fault, left: fault.times ?? 1 });
    this.#faults.set(method, faults);
  }

  /** Keeps calls from being answered. @returns lets those go that came meanwhile, and all later ones */
  hold(method: PubSubMethod): () => void {
    const calls: (() => void)[] = [];
    this.#held.set(method, calls);
    return () => {
      this.#held.delete(method);
      for (const call of calls) call();
    };
  }

  count(method: PubSubMethod): number {
    return this.calls.filter((call) => call.method === method).length;
  }

  stop(): void {
    this.#server.forceShutdown();
    for (const { entries } of this.#subscriptions.values()) for (const { lease } of entries) lease?.timer.cancel();
  }

  #method(
    method: PubSubMethod,
    handle: (request: PubSubRequest, reply: Reply, call: ServerUnaryCall<object, object>) => void,
  ) {
    return (call: ServerUnaryCall<object, object>, reply: Reply): void => {
      const request = call.request as PubSubRequest;
      this.calls.push({ method, request });
      const run = (): void => {
        const fault = this.#faults.get(method)?.find(({ left, when }) => left > 0 && (when?.(request) ?? true));
        if (fault === undefined) {
          handle(request, reply, call);
          return;
        }
        fault.left--;
        const refuse = (): void => reply({ code: fault.code, details: `${method} fails on demand` });
        if (fault.answerLost) handle(request, refuse, call);
        else refuse();
      };
      const held = this.#held.get(method);
      if (held === undefined) run();
      else held.push(run);
    };
  }

  #onPublish({ topic, messages }: PubSubRequest, reply: Reply): void {
    if (!this.#topics.has(last(topic))) notFound(reply, topic);
    else reply(null, { messageIds: messages.map((one) => this.publish(last(topic), one.data, one.attributes)) });
  }

  #onPull({ subscription, maxMessages }: PubSubRequest, reply: Reply, call: ServerUnaryCall<object, object>): void {
    const sub = this.#subscriptions.get(last(subscription));
    if (sub === undefined) {
      notFound(reply, subscription);
      return;
    }
    const end = (entries: object[]): void => {
      timer.cancel();
      sub.waiting.delete(pull);
      reply(null, { receivedMessages: entries });
    };
    const timer = this.#clock.after(PULL_WAIT, () => end([]), true);
    const pull = { max: maxMessages, answer: end };
    sub.waiting.add(pull);
    call.on("cancelled", () => {
      timer.cancel();
      sub.waiting.delete(pull);
    });
    this.#serve(sub);
  }

  #onAck({ subscription, ackIds }: PubSubRequest, reply: Reply): void {
    this.#change(subscription, ackIds, reply, (sub, entry) => {
      this.#release(entry);
      sub.entries.delete(entry);
    });
  }

  #onModify({ subscription, ackIds, ackDeadlineSeconds }: PubSubRequest, reply: Reply): void {
    this.#change(subscription, ackIds, reply, (sub, entry) => {
      if (ackDeadlineSeconds > 0) this.#lease(sub, entry, entry.lease!.ackId, ackDeadlineSeconds);
      else this.#release(entry);
    });
    const sub = this.#subscriptions.get(last(subscription));
    if (sub !== undefined) this.#serve(sub);
  }

  #onGet({ subscription }: PubSubRequest, reply: Reply): void {
    const options = this.#subscriptions.get(last(subscription))?.options;
    if (options === undefined) notFound(reply, subscription);
    else
      reply(null, {
        name: subscription,
        ackDeadlineSeconds: options.ackDeadlineSeconds ?? 10,
        enableExactlyOnceDelivery: options.exactlyOnce ?? false,
        ...(options.deadLetters ? { deadLetterPolicy: { maxDeliveryAttempts: 5 } } : {}),
      });
  }

  #change(
    subscription: string,
    ackIds: readonly string[],
    reply: Reply,
    change: (sub: Sub, entry: Entry) => void,
  ): void {
    const sub = this.#subscriptions.get(last(subscription));
    if (sub === undefined) {
      notFound(reply, subscription);
      return;
    }
    const stale: Record<string, string> = {};
    for (const ackId of ackIds) {
      const entry = [...sub.entries].find(({ lease }) => lease?.ackId === ackId);
      if (entry !== undefined) change(sub, entry);
      else stale[ackId] = "PERMANENT_FAILURE_INVALID_ACK_ID";
    }
    if (sub.options.exactlyOnce && Object.keys(stale).length > 0) reply(ackError(status.FAILED_PRECONDITION, stale));
    else reply(null, {});
  }

  #serve(sub: Sub): void {
    for (const pull of sub.waiting) {
      const taken: Entry[] = [];
      for (const entry of sub.entries) {
        if (taken.length === pull.max) break;
        if (entry.lease === undefined) taken.push(entry);
      }
      if (taken.length === 0) return;
      pull.answer(taken.map((entry) => this.#deliver(sub, entry)));
    }
  }

  #deliver(sub: Sub, entry: Entry): object {
    entry.attempts++;
    this.#lease(sub, entry, `ack-${++this.#ids}`, sub.options.ackDeadlineSeconds ?? 10);
    const { messageId, data, attributes, publishedAt } = entry;
    const publishTime = { seconds: Math.floor(publishedAt / 1000), nanos: (publishedAt % 1000) * 1e6 };
    return {
      ackId: entry.lease!.ackId,
      message: { messageId, data, attributes, publishTime },
      deliveryAttempt: sub.options.deadLetters ? entry.attempts : 0,
    };
  }

  #lease(sub: Sub, entry: Entry, ackId: string, seconds: number): void {
    entry.lease?.timer.cancel();
    const timer = this.#clock.after(
      seconds * 1000,
      () => {
        entry.lease = undefined;
        this.#serve(sub);
      },
      true,
    );
    entry.lease = { ackId, timer };
  }

  #release(entry: Entry): void {
    entry.lease?.timer.cancel();
    entry.lease = undefined;
  }
}

function notFound(reply: Reply, name: string): void {
  reply({ code: status.NOT_FOUND, details: `Resource not found (resource=${last(name)})` });
}

/** The id at the end of a resource name. */
function last(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1);
}
