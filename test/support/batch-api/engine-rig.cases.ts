import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach } from "vitest";
import { BatchEngine } from "../../../src/async/batch-api/batch-engine.ts";
import type { BatchQueue } from "../../../src/async/batch-api/batch-queue.ts";
import { BatchStore } from "../../../src/async/batch-api/batch-store.ts";
import { LANES } from "../../../src/async/batch-api/batch-table.ts";
import { laneQueue } from "../../../src/async/batch-api/batch-task.ts";
import type { Batches } from "../../../src/async/batch-api/batches.ts";
import { BatchDatabase } from "../../../src/async/batch-api/database.ts";
import { newId } from "../../../src/async/batch-api/file-table.ts";
import { BatchFolder } from "../../../src/async/batch-api/folder.ts";
import { FolderBatches } from "../../../src/async/batch-api/folder-batches.ts";
import { LineBroker } from "../../../src/async/batch-api/line-broker.ts";
import { LineQueue } from "../../../src/async/batch-api/line-queue.ts";
import { type BatchLimits, DEFAULT_BATCH_LIMITS, type StoredBatch } from "../../../src/async/batch-api/records.ts";
import type { Broker, Claim } from "../../../src/async/brokers/broker.ts";
import type { ResultMessage } from "../../../src/async/brokers/messages/message.ts";
import { errorResult } from "../../../src/async/brokers/messages/result.ts";
import { VirtualClock } from "../../../src/base/clock/virtual.ts";
import { silentLogger } from "../../../src/base/telemetry/logger.ts";
import { NO_EVENTS } from "../brokers/sqlite/fixture.cases.ts";
import { queueSettings } from "../dispatch/harness.cases.ts";

const EPOCH = 1_800_000_000_000;

/** What a dispatcher makes of a request. */
export type Reply = (id: string, body: string) => Partial<ResultMessage>;

const GOOD: Reply = () => ({
  statusCode: 200,
  payload: Buffer.from('{"usage":{"prompt_tokens":3,"completion_tokens":2}}'),
});

/** An answer line, as far as tests look at it. */
export interface AnswerLine {
  readonly id: string;
  readonly custom_id: string;
  readonly response: { readonly status_code: number } | null;
  readonly error: { readonly code: string } | null;
}

/** A folder of batches with its engine in virtual time, and a dispatcher that works when a test says so. */
export class EngineRig {
  readonly folder = new BatchFolder(mkdtempSync(join(tmpdir(), "sluice-batches-")));
  readonly limits: BatchLimits;
  clock = new VirtualClock(EPOCH);
  store: BatchStore;
  queue: LineQueue;
  /** Requests that the engine has submitted. */
  submitted = 0;
  engine: BatchEngine;
  #broker: Broker;
  readonly #window: number;
  readonly #notifies: boolean;
  readonly #open: { close(): unknown }[] = [];

  constructor(
    options: { readonly window?: number; readonly limits?: Partial<BatchLimits>; readonly notifies?: boolean } = {},
  ) {
    this.#window = options.window ?? 7;
    this.#notifies = options.notifies ?? false;
    this.limits = { ...DEFAULT_BATCH_LIMITS, ...options.limits };
    this.store = this.#opened(new BatchStore(this.folder, { notifies: this.#notifies }));
    this.queue = new LineQueue(this.clock);
    this.#broker = this.#newBroker();
    this.engine = this.#newEngine();
  }

  /** As a process that is killed now, and another one that starts: nothing of the first one goes on. */
  crash(): void {
    const wall = this.clock.wall();
    this.clock = new VirtualClock(wall);
    this.store = this.#opened(new BatchStore(this.folder, { notifies: this.#notifies }));
    this.store.sweep();
    this.queue = new LineQueue(this.clock);
    this.#broker = this.#newBroker();
    this.engine = this.#newEngine();
    this.engine.start();
  }

  /** A file of a caller. @returns its id */
  file(owner: string, content: string): string {
    const id = newId("file-");
    writeFileSync(this.folder.content(id), content);
    const now = this.clock.wall() / 1000;
    this.store.files.add({
      ...{ id, owner, purpose: "batch", filename: "in.jsonl", bytes: Buffer.byteLength(content), createdAt: now },
      expiresAt: now + this.limits.keep,
    });
    return id;
  }

  /** Makes a batch. @throws when it is refused */
  batch(content: string, { owner = "", seconds = 86_400 }: { owner?: string; seconds?: number } = {}): string {
    const made = this.store.batches.add(
      {
        ...{ caller: { id: owner, name: owner }, endpoint: "/v1/chat/completions", completionWindow: `${seconds}s` },
        ...{ inputFileId: this.file(owner, content), windowSeconds: seconds, metadata: undefined },
        outputSeconds: undefined,
      },
      this.limits,
      this.clock.wall() / 1000,
    );
    if (typeof made === "string") throw new Error(made);
    return made.id;
  }

  /** The store as the engine and the API see it. */
  get batches(): Batches {
    return new FolderBatches(this.store);
  }

  get(id: string): StoredBatch {
    return this.store.batches.any(id)!;
  }

  /** Another connection to the database of the folder. */
  database(): BatchDatabase {
    return this.#opened(new BatchDatabase(this.folder.database));
  }

  pass(ms: number): Promise<void> {
    return this.clock.advanceAsync(ms);
  }

  /** Claims up to `count` requests of all lanes. */
  async claim(count: number): Promise<readonly Claim[]> {
    const claims: Claim[] = [];
    for (let lane = 0; lane < LANES; lane++) {
      const queue = queueSettings(laneQueue(lane));
      const request = { max: count - claims.length, expired: count };
      if (request.max > 0) claims.push(...(await this.#broker.claim(queue, request)).claims);
    }
    return claims;
  }

  /** Ends claims as a dispatcher does: cancelled and expired ones without an attempt. */
  async settle(claims: readonly Claim[], reply: Reply = GOOD): Promise<void> {
    const now = this.clock.wall() / 1000;
    await this.#broker.settle(
      claims.map((claim) => {
        const { id, deadline, payload } = claim.message.request;
        const ended =
          deadline < now
            ? errorResult(id, "DEADLINE_EXCEEDED", "late")
            : claim.cancelled
              ? errorResult(id, "CANCELLED", "cancelled")
              : undefined;
        const made = { ...errorResult(id, "INFERENCE_ERROR", ""), errorCode: "" as const };
        return {
          kind: "result",
          claim,
          result: ended ?? { ...made, ...reply(id, Buffer.from(payload ?? "").toString()) },
        } as const;
      }),
    );
  }

  /** Works until the batch has ended. */
  async finish(id: string, reply: Reply = GOOD): Promise<StoredBatch> {
    for (let turn = 0; turn < 5000; turn++) {
      await this.settle(await this.claim(5), reply);
      await this.pass(50);
      const batch = this.get(id);
      if (["completed", "failed", "expired", "cancelled"].includes(batch.status)) return batch;
    }
    throw new Error(`the batch does not end: ${JSON.stringify(this.get(id))}`);
  }

  /** The answers of an ended batch by custom id; a second answer to a line is an error. */
  answers(id: string): ReadonlyMap<string, AnswerLine> {
    const found = new Map<string, AnswerLine>();
    const { outputFileId, errorFileId, hasOutput, hasErrors } = this.get(id);
    const files = [...(hasOutput ? [outputFileId] : []), ...(hasErrors ? [errorFileId] : [])];
    for (const file of files)
      for (const line of readFileSync(this.folder.content(file), "utf8").trimEnd().split("\n")) {
        const answer = JSON.parse(line) as AnswerLine;
        if (found.has(answer.custom_id)) throw new Error(`two answers to ${answer.custom_id}`);
        found.set(answer.custom_id, answer);
      }
    return found;
  }

  remove(): void {
    for (const part of this.#open) void part.close();
    rmSync(this.folder.path, { recursive: true });
  }

  #opened<T extends { close(): unknown }>(part: T): T {
    this.#open.push(part);
    return part;
  }

  #newBroker(): Broker {
    const queues = Array.from({ length: LANES }, (_, lane) => queueSettings(laneQueue(lane)));
    const broker = new LineBroker(this.queue, { queues, pollInterval: 1000 }, { clock: this.clock, log: silentLogger });
    broker.start(NO_EVENTS);
    return broker;
  }

  /** The queue, with a count of what is submitted. */
  #counting(queue: LineQueue): BatchQueue {
    return {
      producer: async (lane, results) => {
        const { submitRequests, close } = await queue.producer(lane, results);
        return {
          close,
          submitRequests: (requests) => {
            this.submitted += requests.length;
            return submitRequests(requests);
          },
        };
      },
      inbox: (results) => queue.inbox(results),
      outstanding: (ids) => queue.outstanding(ids),
      withdraw: (ids) => queue.withdraw(ids),
      drop: (results) => queue.drop(results),
      allow: (until) => queue.allow(until),
    };
  }

  #newEngine(): BatchEngine {
    const { batches, clock, limits } = this;
    return new BatchEngine({
      ...{ store: batches, clock, limits, window: this.#window, namesBatches: true, log: silentLogger },
      queue: this.#counting(this.queue),
    });
  }
}

/** A function that makes rigs, which are removed after each test of the file. */
export function engineRigs(
  make: (...options: ConstructorParameters<typeof EngineRig>) => EngineRig = (...options) => new EngineRig(...options),
): (...options: ConstructorParameters<typeof EngineRig>) => EngineRig {
  const made: EngineRig[] = [];
  afterEach(() => {
    for (const one of made.splice(0)) one.remove();
  });
  return (...options) => {
    const one = make(...options);
    made.push(one);
    return one;
  };
}

/** The text of a line of an input. */
export function inputLine(customId: string, over: object = {}): string {
  return `${JSON.stringify({
    ...{ custom_id: customId, method: "POST", url: "/v1/chat/completions", body: { model: "m", n: customId } },
    ...over,
  })}\n`;
}

/** An input of so many lines: c1, c2 and so on. */
export function inputLines(count: number): string {
  return Array.from({ length: count }, (_, at) => inputLine(`c${at + 1}`)).join("");
}
