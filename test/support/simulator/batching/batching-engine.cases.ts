import { SeededRandom } from "../../../../src/base/clock/random.ts";
import { VirtualClock } from "../../../../src/base/clock/virtual.ts";
import { BatchingEngine } from "../../../../src/lab/simulator/batching/batching-engine.ts";
import type { BatchingConfig, StepLoad } from "../../../../src/lab/simulator/batching/config.ts";
import type { Sequence, SequenceListener, SequenceSpec } from "../../../../src/lab/simulator/sequence.ts";

/** Ten milliseconds a step and one for each prompt token, four tokens to a block. */
export const CONFIG: BatchingConfig = {
  cost: { base: 10, prefill: 1, attention: 0, context: 0, sequence: 0 },
  tokenBudget: 16,
  maxNumSeqs: 8,
  maxWaitingQueueLength: 100,
  maxModelLen: 100,
  kvBlocks: 40,
  blockSize: 4,
  prefixCache: true,
  maxLoras: 2,
  loraLoadMs: 0,
};

/** An engine in virtual time, what its sequences' owner hears, and what its steps compute. */
export function setUp(config: Partial<BatchingConfig> = {}) {
  const clock = new VirtualClock();
  const log: string[] = [];
  const steps: (StepLoad & { duration: number })[] = [];
  const engine = new BatchingEngine({
    config: { ...CONFIG, ...config },
    clock,
    random: new SeededRandom(1),
    onStep: (load, duration) => steps.push({ ...load, duration }),
  });
  const listener: SequenceListener = {
    onStart: (s) => log.push(`${clock.now()} start ${s.id}`),
    onToken: (s, count) => log.push(`${clock.now()} token ${s.id} +${count}`),
    onFinish: (s) => log.push(`${clock.now()} finish ${s.id} ${s.finishReason}`),
    onAbort: (s) => log.push(`${clock.now()} abort ${s.id}`),
    onReject: (s, reason) => log.push(`${clock.now()} reject ${s.id} ${reason}`),
  };
  const submit = (spec: Partial<SequenceSpec> = {}, own: SequenceListener = listener): Sequence =>
    engine.submit({ prompt: 6, outputTokens: 2, ...spec }, own);
  return { clock, engine, log, steps, submit };
}

/** Token ids that say what and where they are. */
export function tokens(length: number, family = 1, from = 0): Uint32Array {
  return Uint32Array.from({ length }, (_, i) => 1000 * family + from + i);
}

/** Blocks held, and kept without a holder. */
export function blocksOf({ blocks }: BatchingEngine): [pinned: number, idle: number] {
  return [blocks.pinned, blocks.idle];
}
