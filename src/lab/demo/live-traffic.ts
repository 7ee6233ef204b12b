import type { Dispatcher } from "undici";
import { type Clock, delay } from "../../base/clock/clock.ts";
import type { SeededRandom } from "../../base/clock/random.ts";
import { type DemoRequest, PREFIX_TOKENS, PREFIXES, type RequestOutcome, send, words } from "./traffic.ts";

/** Requests in flight at a time; further ones wait. A slow machine must not gather requests without end. */
const MOST_IN_FLIGHT = 400;
/** Milliseconds after which a change of the rate counts, at the latest. */
const LOOK_MS = 250;

interface LiveOptions {
  readonly client: Dispatcher;
  readonly clock: Clock;
  readonly random: SeededRandom;
  /** Ends the sending; requests in flight are answered. */
  readonly signal: AbortSignal;
  /** Requests per second from now on, above 0. */
  rate(): number;
  ended(outcome: RequestOutcome): void;
}

/** Sends requests as in the demo's list, with Poisson arrivals at a rate that may change. Resolves after the last answer. */
export async function runLive({ client, clock, random, signal, rate, ended }: LiveOptions): Promise<void> {
  const systems = Array.from({ length: PREFIXES }, () => words(random, PREFIX_TOKENS));
  const answers = new Set<Promise<void>>();
  const begin = clock.now();
  let due = begin;
  for (let number = 0; !signal.aborted; number++) {
    const wanted = -Math.log(1 - random.next());
    // The share of the wait that is over counts, whatever the rate was: a change has an effect at once.
    for (let done = 0; done < wanted && !signal.aborted; ) {
      const step = Math.min(LOOK_MS, ((wanted - done) * 1000) / rate());
      done += (step * rate()) / 1000 + 1e-9;
      due += step;
      const wait = due - clock.now();
      if (wait > 0) await delay(clock, wait, signal).catch(() => undefined);
      else if (wait < -1000) due = clock.now();
    }
    if (signal.aborted) break;
    while (answers.size >= MOST_IN_FLIGHT && !signal.aborted) await Promise.race(answers);
    const answer = send(client, requestOf(random, systems, number, clock.now() - begin), clock).then((outcome) => {
      answers.delete(answer);
      ended(outcome);
    });
    answers.add(answer);
  }
  await Promise.all(answers);
}

function requestOf(random: SeededRandom, systems: readonly string[], number: number, at: number): DemoRequest {
  const prefix = random.below(PREFIXES);
  return {
    ...{ number, at, prefix, system: systems[prefix]! },
    question: words(random, 16 + random.below(33)),
    maxTokens: 24 + random.below(41),
  };
}
