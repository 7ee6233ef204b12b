import type { ResultMessage } from "../../../../src/async/brokers/messages/message.ts";
import { parseResult } from "../../../../src/async/brokers/messages/result.ts";
import { submission } from "../../../../src/async/brokers/messages/submission.ts";
import type { Producer, SubmitRequest } from "../../../../src/async/brokers/queue-client.ts";
import { requestToken } from "../../../../src/async/brokers/request-token.ts";
import type { Random } from "../../../../src/base/clock/random.ts";
import type { MemoryStore } from "./store.ts";

export interface MemoryProducerSettings {
  readonly requestQueueName: string;
  readonly resultQueueName: string;
}

/** A producer on a `MemoryStore`. */
export class MemoryProducer implements Producer {
  readonly #settings: MemoryProducerSettings;
  readonly #store: MemoryStore;
  readonly #random: Random;

  constructor(settings: MemoryProducerSettings, store: MemoryStore, random: Random) {
    this.#settings = settings;
    this.#store = store;
    this.#random = random;
  }

  submitRequest(request: SubmitRequest): Promise<void> {
    return this.submitRequests([request]);
  }

  async submitRequests(requests: readonly SubmitRequest[]): Promise<void> {
    const now = this.#store.clock.wall() / 1000;
    const all = requests.map((request) =>
      submission(request, { ...this.#settings, now, token: requestToken(this.#random) }),
    );
    await this.#store.call(() => {
      this.#store.reserve(all.length);
      for (const { requestQueueName, envelope, deadline } of all) this.#store.add(requestQueueName, envelope, deadline);
      for (const queueName of new Set(all.map(({ requestQueueName }) => requestQueueName)))
        this.#store.announce(queueName);
    });
  }

  cancelRequests(ids: readonly string[]): Promise<void> {
    return this.#store.call(() => {
      for (const id of ids) if (id !== "") this.#store.cancel(id);
    });
  }

  async getResult(signal?: AbortSignal): Promise<ResultMessage> {
    for (;;) {
      signal?.throwIfAborted();
      const text = await this.#store.call(() => this.#store.takeResult(this.#settings.resultQueueName));
      if (text !== undefined) return parseResult(text);
      await this.#nextResult(signal);
    }
  }

  requestQueueDepth(): Promise<number> {
    return this.#store.call(() => this.#store.queue(this.#settings.requestQueueName).size);
  }

  resultQueueDepth(): Promise<number> {
    return this.#store.call(() => this.#store.results(this.#settings.resultQueueName).length);
  }

  clearRequestQueue(): Promise<void> {
    return this.#store.call(() => {
      for (const entry of this.#store.queue(this.#settings.requestQueueName).take(() => "take"))
        this.#store.forget(entry);
    });
  }

  clearResultQueue(): Promise<void> {
    return this.#store.call(() => this.#store.clearResults(this.#settings.resultQueueName));
  }

  async close(): Promise<void> {}

  #nextResult(signal: AbortSignal | undefined): Promise<void> {
    if (this.#store.results(this.#settings.resultQueueName).length > 0) return Promise.resolve();
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const end = (): void => {
        unsubscribe();
        signal?.removeEventListener("abort", onAbort);
      };
      const onAbort = (): void => {
        end();
        reject(signal?.reason);
      };
      const unsubscribe = this.#store.onResults(() => {
        end();
        resolve();
      });
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }
}
