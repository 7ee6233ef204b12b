/**
 * CPU of one request in a picker that shares what it knows, beside one that shares nothing, in one run.
 *
 *   node bench/replicas.ts [--rounds 12] [--endpoints 16] [--bytes 8192]
 *
 * Each picker handles 1,000 requests a second of virtual time, 50 at a time, without sockets: headers, body, decision, answer. Its
 * peers decide 1,000 requests a second each: every 20 ms it gets the load of each peer and what the 20 decisions of that time newly placed.
 * A prompt is one of 200 long beginnings with a question of 1 KB, so a decision places about five new blocks. The rounds of all pickers
 * take turns, and the median of the rounds counts.
 */
import { parseArgs } from "node:util";
import { SeededRandom } from "../src/base/clock/random.ts";
import { VirtualClock } from "../src/base/clock/virtual.ts";
import { HeaderList } from "../src/base/inference/headers.ts";
import { Rejection } from "../src/base/inference/outcomes.ts";
import { silentLogger } from "../src/base/telemetry/logger.ts";
import { loadConfig } from "../src/picker/config/load.ts";
import { InferenceCore } from "../src/picker/core/inference-core.ts";
import { PLUGIN_REGISTRY } from "../src/picker/core/plugins/plugins.ts";
import type { Exchange } from "../src/picker/exchange/wire.ts";
import { clusterMark, encodeLoad, PlacedWriter } from "../src/pool/peers/codec.ts";
import { markOf } from "../src/pool/peers/placed-log.ts";
import type { PeerReceiver } from "../src/pool/peers/transport.ts";
import { objectivesFromFlags } from "../src/pool/resources/objectives.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "12" },
    endpoints: { type: "string", default: "16" },
    bytes: { type: "string", default: "8192" },
  },
});
const ENDPOINTS = Number(values.endpoints);
const PREFIX_BYTES = Number(values.bytes);
const QUESTION_BYTES = 1024;
const PREFIXES = 200;
const OPEN = 50;
/** Requests and peers' decisions of one round: a second of virtual time. */
const DECISIONS = 1000;
const TOGETHER = 20;
const NEW_BLOCKS = 5;
const CLUSTER = "bench";
/** The approximate producer of the default profile. */
const SPACE = "approx-prefix-cache-producer";
const NO_WIRE = { pauseRequest() {}, resumeRequest() {}, evict() {} };

interface PeerMessages {
  readonly at: number;
  readonly load: Uint8Array;
  readonly placed: Uint8Array;
}

/** One picker with the messages of its peers. */
class Picker {
  readonly name: string;
  readonly clock = new VirtualClock(1e12);
  readonly core: InferenceCore;
  readonly spent: number[] = [];
  receivedBytes = 0;
  sentBytes = 0;
  readonly #peers: number;
  readonly #random: SeededRandom;
  readonly #open: Exchange[] = [];
  #receiver: PeerReceiver | undefined;
  #number = 0;
  #messages = 0;

  constructor(name: string, peers: number | undefined) {
    this.name = name;
    this.#peers = peers ?? 0;
    this.#random = new SeededRandom(7);
    const append = (message: Uint8Array): void => {
      this.sentBytes += message.length;
    };
    this.core = new InferenceCore({
      ...{ clock: this.clock, random: new SeededRandom(1), log: silentLogger, staleness: 2000, ignoreSubset: false },
      config: loadConfig(undefined, PLUGIN_REGISTRY),
      models: { objectives: objectivesFromFlags([]) },
      peers:
        peers === undefined
          ? undefined
          : {
              identity: { cluster: CLUSTER, secret: "" },
              transport: {
                publishLoad: append,
                appendPlaced: append,
                start: (receiver) => {
                  this.#receiver = receiver;
                  receiver.connection(true);
                  receiver.caughtUp();
                },
                close: async () => {},
              },
            },
    });
    for (let i = 0; i < ENDPOINTS; i++) {
      const endpoint = this.core.endpoints.upsert({
        namespace: "b",
        name: `e${i}`,
        address: `10.0.0.${i}`,
        port: 8000,
        rank: 0,
        labels: {},
      })!;
      endpoint.metrics = {
        ...{ waiting: i % 3, running: i, kvUsage: 0.25, maxLora: 0, loraRunning: new Set(), loraWaiting: new Set() },
        ...{ blockSize: 16, blocks: 40_000, scrapedAt: 0 },
      };
      endpoint.scrapeInterval = 3_600_000;
    }
    // Not `core.start`: there are no servers to scrape.
    this.core.peers?.start();
  }

  /** One second of virtual time. */
  round(): void {
    const bodies = Array.from({ length: DECISIONS }, () => this.#body());
    const messages = this.#peerMessages();
    let next = 0;
    const before = process.cpuUsage();
    for (let ms = 0; ms < DECISIONS; ms++) {
      this.clock.advance(1);
      for (; next < messages.length && messages[next]!.at <= ms; next++) {
        this.#receiver!.load(messages[next]!.load);
        this.#receiver!.placed(messages[next]!.placed);
      }
      this.#begin(bodies[ms]!);
      if (this.#open.length > OPEN) this.#end(this.#open.shift()!);
    }
    const { user, system } = process.cpuUsage(before);
    this.spent.push((user + system) / DECISIONS);
  }

  #begin(body: Buffer): void {
    const exchange = this.core.openExchange(NO_WIRE);
    exchange.requestHeaders(
      HeaderList.of([
        [":method", "POST"],
        [":path", "/v1/chat/completions"],
        ["content-type", "application/json"],
      ]),
      false,
    );
    const decision = exchange.requestBody(body, true);
    if (decision instanceof Rejection) throw new Error(decision.text);
    exchange.releaseBody();
    this.#open.push(exchange);
  }

  #end(exchange: Exchange): void {
    exchange.responseHeaders(200, HeaderList.of([["content-type", "application/json"]]), false);
    exchange.responseBody(Buffer.from('{"choices":[],"usage":{"prompt_tokens":2300,"completion_tokens":9}}'), true);
  }

  #body(): Buffer {
    const prefix = `${this.#random.below(PREFIXES)} `.padEnd(PREFIX_BYTES, "a long beginning ");
    const question = `${this.#number++} `.padEnd(QUESTION_BYTES, "question ");
    return Buffer.from(`{"model":"m","messages":[{"role":"user","content":"${prefix}${question}"}]}`);
  }

  #peerMessages(): PeerMessages[] {
    const cluster = clusterMark(CLUSTER, "");
    const messages: PeerMessages[] = [];
    const random = this.#random;
    for (let at = 0; at < DECISIONS; at += TOGETHER) {
      this.#messages++;
      for (let peer = 0; peer < this.#peers; peer++) {
        const sender = { id: (peer + 1).toString(16).padStart(16, "0"), epoch: 1, sequence: this.#messages };
        const loads = Array.from({ length: ENDPOINTS }, (_, i) => ({
          key: `10.0.0.${i}:8000`,
          requests: 1 + random.below(9),
          tokens: random.below(9000),
        }));
        const writer = new PlacedWriter(cluster);
        for (let i = 0; i < TOGETHER; i++) {
          const hash = (): Int32Array => Int32Array.from({ length: NEW_BLOCKS }, () => random.below(2 ** 32));
          writer.add(sender, {
            key: `10.0.0.${random.below(ENDPOINTS)}:8000`,
            space: markOf(SPACE),
            blockTokens: 64,
            from: 0,
            count: NEW_BLOCKS,
            low: hash(),
            high: hash(),
          });
        }
        const one = {
          at: at + (peer % TOGETHER),
          load: encodeLoad(cluster, { ...sender, loads, facts: undefined }),
          placed: writer.take(),
        };
        this.receivedBytes += one.load.length + one.placed.length;
        messages.push(one);
      }
    }
    return messages.sort((a, b) => a.at - b.at);
  }
}

const PICKERS = [
  new Picker("shares nothing", undefined),
  new Picker("0 peers", 0),
  new Picker("1 peer", 1),
  new Picker("4 peers", 4),
  new Picker("16 peers", 16),
];
for (let round = 0; round < Number(values.rounds) + 2; round++) {
  for (const picker of PICKERS) picker.round();
  // The first rounds run code that is still being compiled.
  if (round === 1) for (const picker of PICKERS) picker.spent.length = 0;
}

const median = (figures: readonly number[]): number => [...figures].sort((a, b) => a - b)[figures.length >> 1]!;
const none = median(PICKERS[0]!.spent);
console.table(
  PICKERS.map(({ name, spent, core }) => ({
    picker: name,
    "CPU us per request": Number(median(spent).toFixed(1)),
    "of none": Number((median(spent) / none).toFixed(2)),
    "peers' decisions a second": (core.peers?.placedLog.counts.decisions ?? 0) / (Number(values.rounds) + 2),
  })),
);
const sixteen = PICKERS[4]!;
console.log(
  `one decision of a peer: ${((1000 * (median(sixteen.spent) - none)) / 16).toFixed(0)} ns, and ${(sixteen.receivedBytes / (16 * DECISIONS * (Number(values.rounds) + 2))).toFixed(0)} bytes received with its share of the load message (${NEW_BLOCKS} new blocks)`,
);
const { sentDecisions, sentBlocks, sentBytes, sentMessages } = PICKERS[3]!.core.peers!.placedLog.counts;
const perDecision = sentBytes / DECISIONS / (Number(values.rounds) + 2);
const blocks = sentBlocks / DECISIONS / (Number(values.rounds) + 2);
console.log(
  `sent: ${perDecision.toFixed(0)} bytes per decision to the log for ${blocks.toFixed(1)} blocks, ${(sentDecisions / sentMessages).toFixed(1)} decisions a message; with loads ${(PICKERS[3]!.sentBytes / DECISIONS / (Number(values.rounds) + 2)).toFixed(0)} bytes`,
);
const four = median(PICKERS[3]!.spent) / none;
console.log(`${four <= 1.1 ? "met    " : "NOT MET"}  4 peers: ${four.toFixed(2)}x of none (limit 1.1)`);
console.log(
  `${perDecision <= 200 + 8 * blocks ? "met    " : "NOT MET"}  bytes per decision: at most 200 + 8 for each block`,
);
