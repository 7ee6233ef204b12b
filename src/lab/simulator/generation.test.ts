import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import { expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { Adapters } from "./adapters.ts";
import type { SimContext } from "./context.ts";
import { SimEngine } from "./engine.ts";
import { Generation } from "./generation.ts";
import { readGenerationRequest } from "./generation-request.ts";
import { SimMetrics } from "./metrics.ts";
import { parseSimOptions } from "./options.ts";
import { RequestLog, type RequestRecord } from "./request-log.ts";

/** A response whose client reads only when told to. */
class SlowResponse extends EventEmitter {
  headersSent = false;
  ended = false;
  waiting = "";
  read = "";
  most = 0;

  writeHead(): void {
    this.headersSent = true;
  }

  write(text: string): boolean {
    this.waiting += text;
    this.most = Math.max(this.most, this.waiting.length);
    return this.waiting.length < 16_384;
  }

  end(): void {
    this.ended = true;
  }

  drain(): void {
    this.read += this.waiting;
    this.waiting = "";
    this.emit("drain");
  }
}

// D-54 asks a server for 100 MiB to a slow client: what waits for it must stay small, and its slot must not wait for it.
it("holds little for a client that doesn't read, frees the slot in time, and still delivers every token", () => {
  const clock = new VirtualClock();
  const settings = parseSimOptions({ "max-model-len": 1_000_000 });
  const metrics = new SimMetrics(clock, "sim", settings.maxModelLen);
  const engine = new SimEngine({
    config: { ...settings, latency: { ...settings, interTokenLatency: 1 } },
    clock,
    random: new SeededRandom(1),
    observer: metrics,
  });
  const context: SimContext = {
    settings,
    engine,
    adapters: new Adapters([]),
    metrics,
    log: new RequestLog(),
    clock,
    random: new SeededRandom(2),
    startedAt: 0,
    startedWall: 0,
    modelNames: ["sim"],
    inferenceRequests: 0,
    generations: new Set(),
    crashAfter: () => {},
  };
  const tokens = 50_000;
  const body = { prompt: "a", max_tokens: tokens, ignore_eos: true, stream: true };
  const response = new SlowResponse();
  const record = { id: "r", firstTokenAt: null } as RequestRecord;
  const request = readGenerationRequest(context, "completions", body);
  new Generation(context, request, response as unknown as ServerResponse, record, settings).start();
  clock.run();
  expect([engine.running, engine.counters.finished, response.ended]).toEqual([0, 1, false]);
  for (let turn = 0; turn < 10_000 && !response.ended; turn++) response.drain();
  response.drain();
  expect(response.read.split("data: ").length - 1).toBe(tokens + 2);
  expect(response.most).toBeLessThan(64 * 1024);
});
