import type { Broker, BrokerEvents, Claim, Settlement } from "../../../../src/async/brokers/broker.ts";
import type { ResultMessage } from "../../../../src/async/brokers/messages/message.ts";
import { errorResult, parseResult } from "../../../../src/async/brokers/messages/result.ts";
import type { DeadLetter, Producer, SubmitRequest } from "../../../../src/async/brokers/queue-client.ts";
import type { LeaseSettings, QueueSettings } from "../../../../src/async/brokers/settings.ts";
import { type BrokerHarness, type CaseSettings, queueOf } from "./harness.cases.ts";

export const LONG: LeaseSettings = { claimTtl: 60_000, reclaimInterval: 5000, maxAttempts: 0 };
/** A lease that a case waits for to run out. */
export const SHORT: LeaseSettings = { ...LONG, claimTtl: 400 };
export const NOBODY: ReadonlySet<string> = new Set();
export const Q = queueOf("q");

/** Records what a broker reports. */
class Recorder implements BrokerEvents {
  readonly availableIn: string[] = [];
  readonly dead: string[] = [];
  reclaimedCount = 0;
  forgottenCount = 0;

  available({ name }: QueueSettings): void {
    this.availableIn.push(name);
  }

  deadLettered(_queue: QueueSettings, reason: string): void {
    this.dead.push(reason);
  }

  reclaimed(_queue: QueueSettings, count: number): void {
    this.reclaimedCount += count;
  }

  writeRetried(): void {}

  forgotten(_queue: QueueSettings, count: number): void {
    this.forgottenCount += count;
  }

  async doubted(): Promise<void> {}
}

export const ids = (claims: readonly Claim[]): string[] => claims.map(({ message }) => message.request.id);

export function ok(id: string): ResultMessage {
  return { ...errorResult(id, "INFERENCE_ERROR", ""), errorCode: "", statusCode: 200 };
}

export function answered(claim: Claim): Settlement {
  return { kind: "result", claim, result: ok(claim.message.request.id) };
}

export function refused(claim: Claim): Settlement {
  return { kind: "refuse", claim, labels: claim.message.routing.labels };
}

export function envelope(internal: object, data: object, kind = "redis"): string {
  return JSON.stringify({ internal, request_kind: kind, data: { payload: {}, ...data } });
}

/** What a case works with: made anew by `begin`, ended by `end`. */
export class CaseContext {
  readonly #make: (settings: CaseSettings) => Promise<BrokerHarness>;
  #started: Broker[] = [];
  harness!: BrokerHarness;
  broker!: Broker;
  /** Of queue `q`, results in `results`. */
  producer!: Producer;
  /** When the case began: Unix seconds, whole. */
  #began = 0;
  /** Brokers look at it whenever they claim or renew. */
  #leases: { -readonly [K in keyof LeaseSettings]: LeaseSettings[K] } = { ...LONG };
  events = new Recorder();

  constructor(make: (settings: CaseSettings) => Promise<BrokerHarness>) {
    this.#make = make;
  }

  async begin(leases: LeaseSettings = LONG, queues: readonly QueueSettings[] = [Q]): Promise<void> {
    this.#leases = { ...leases };
    this.harness = await this.#make({ queues, resultQueueName: "results", leases: this.#leases, pollInterval: 500 });
    this.broker = this.harness.broker;
    this.events = new Recorder();
    this.broker.start(this.events);
    this.#started = [this.broker];
    this.producer = this.harness.producer("q", "results");
    this.#began = Math.floor((await this.harness.now()) / 1000);
  }

  async end(): Promise<void> {
    await this.producer.close();
    for (const each of this.#started) await each.close();
    await this.harness.close();
  }

  /**
   * What is claimed or renewed from now on has leases of this length, by every broker. So a case on a real store waits for
   * the end of a short lease beside one that no pause of the machine outlasts. @param ms milliseconds
   */
  leaseFor(ms: number): void {
    this.#leases.claimTtl = ms;
  }

  /** Another broker on the same store. */
  startPeer(): Broker {
    const peer = this.harness.peer();
    peer.start(new Recorder());
    this.#started.push(peer);
    return peer;
  }

  /**
   * Unix seconds, whole, counted from when the case began: asked twice it is the same, also on a machine that takes
   * more than a second in between.
   */
  inSeconds(seconds: number): number {
    return this.#began + seconds;
  }

  request(id: string, seconds = 600, more: Partial<SubmitRequest> = {}): SubmitRequest {
    return { id, deadline: this.inSeconds(seconds), payload: { n: 1 }, ...more };
  }

  async submit(id: string, seconds = 600, more: Partial<SubmitRequest> = {}): Promise<void> {
    await this.producer.submitRequest(this.request(id, seconds, more));
  }

  async claim(max: number, by = this.broker, queue = Q): Promise<readonly Claim[]> {
    return (await by.claim(queue, { max, expired: 0 })).claims;
  }

  async results(queueName = "results"): Promise<readonly ResultMessage[]> {
    return (await this.harness.results(queueName)).map(parseResult);
  }

  dead(queueName = "q"): Promise<readonly DeadLetter[]> {
    return this.harness.inspector.dead(queueName, 100);
  }

  /** A retry that is due in `seconds`. */
  async retried(claim: Claim, seconds: number, labels = claim.message.routing.labels): Promise<Settlement> {
    const due = (await this.harness.now()) / 1000 + seconds;
    return { kind: "retry", claim, due, retryCount: claim.message.routing.retryCount + 1, labels };
  }
}
