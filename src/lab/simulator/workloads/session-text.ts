import { numberedRandom } from "./draws.ts";
import { joined, randomText } from "./prompt-text.ts";
import { BYTES_PER_TOKEN } from "./workload.ts";

/** The text of a prompt and of its answer. */
interface Exchanged {
  readonly prompt: Uint8Array;
  readonly outputTokens: number;
  readonly answer: Uint8Array;
}

/**
 * All text of a session, answers included: its beginning, then one stream from a generator that can be created again. So between
 * prompts a session holds a few numbers and no text.
 */
export class SessionText {
  readonly #beginning: Uint8Array;
  readonly #base: number;
  readonly #number: number;

  /**
   * @param beginning text that sessions may share
   * @param base the seed of the workload
   * @param number of the session, from 0 up. Its text comes from generator `2 * number + 1` of the seed
   */
  constructor(beginning: Uint8Array, base: number, number: number) {
    this.#beginning = beginning;
    this.#base = base;
    this.#number = number;
  }

  /**
   * Cuts a prompt and its answer out of the text.
   * @param promptTokens from the start of the text; at least those of the beginning
   * @param outputTokens of the answer, which follows the prompt
   */
  exchanged(promptTokens: number, outputTokens: number): Exchanged {
    const random = numberedRandom(this.#base, 2 * this.#number + 1);
    const begun = this.#beginning.length / BYTES_PER_TOKEN;
    const whole = joined(this.#beginning, randomText(random, promptTokens + outputTokens - begun));
    const promptBytes = promptTokens * BYTES_PER_TOKEN;
    return { prompt: whole.subarray(0, promptBytes), outputTokens, answer: whole.subarray(promptBytes) };
  }
}
