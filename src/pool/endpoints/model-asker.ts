import { type Clock, expireAfter, type Timer } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { ModelAnswer, ModelQuestion } from "./model-client.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import type { EndpointRegistry } from "./registry.ts";
import { NOWHERE, TimerWheel, type WheelEntry } from "./timer-wheel.ts";

/** Milliseconds between two questions to one server, on average; each interval is 0.8 to 1.2 times as long. */
export const ASK_INTERVAL = 10_000;
/** Milliseconds for one answer. */
export const ASK_TIMEOUT = 5000;
/** Milliseconds that a start waits for the first answers of all servers. */
export const START_LOOK = 1000;
/** Questions under way at once. */
export const MAX_ASKING = 16;

export interface ModelAskerOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly registry: EndpointRegistry;
  /** Sends one question. `done` is called once, never before `ask` has returned, and never after a cancel. */
  readonly ask: (endpoint: PoolEndpoint, done: (answer: ModelAnswer) => void) => ModelQuestion;
  /** A server has given an answer of another kind, or an unusable one: what is wrong with it; "" = nothing any more. */
  readonly onProblem: (endpoint: PoolEndpoint, problem: string) => void;
}

/**
 * What an endpoint does here. `idle`: it is down, or the endpoints file states its models. `waiting`: it waits in the wheel.
 * `queued`: it waits for one of the places. `asking`: its question is under way.
 */
type Phase = "idle" | "waiting" | "queued" | "asking";

class Target implements WheelEntry {
  due = 0;
  bucket = NOWHERE;
  place = 0;
  readonly endpoint: PoolEndpoint;
  phase: Phase = "idle";
  question: ModelQuestion | undefined;
  timeout: Timer | undefined;
  problem = "";
  /** Ends the first look at the latest; undefined = the first look is over. */
  firstLook: Timer | undefined;

  constructor(endpoint: PoolEndpoint) {
    this.endpoint = endpoint;
  }
}

/**
 * Asks the model servers of a pool which models they serve: when they come, when they are back from `down`, and from time to
 * time. A question that fails or takes too long changes nothing: the last answer counts on, and the state of the endpoint stays.
 *
 * The first look at an endpoint lasts until its first answer, for `ASK_TIMEOUT` at most, even where many others are asked before.
 * So long its models are awaited, unless they are known from before.
 */
export class ModelAsker {
  readonly #options: ModelAskerOptions;
  readonly #wheel: TimerWheel<Target>;
  readonly #targets = new Map<PoolEndpoint, Target>();
  readonly #unsubscribe: readonly (() => void)[];
  /** The targets that wait for a place; those that have left it are skipped. */
  readonly #queue = new Set<Target>();
  #asking = 0;

  /** Starts. */
  constructor(options: ModelAskerOptions) {
    const { clock, registry } = options;
    this.#options = options;
    this.#wheel = new TimerWheel(clock, (target) => this.#soon(target));
    this.#unsubscribe = [
      registry.onAdded((endpoint) => this.#add(endpoint)),
      registry.onRemoved((endpoint) => this.#remove(endpoint)),
      registry.onModelsUnstated((endpoint) => this.#again(endpoint)),
      registry.onStateChanged((endpoint, from) => {
        if (from === "down") this.#again(endpoint);
        else if (endpoint.state === "down") this.#looked(this.#targets.get(endpoint), "over");
      }),
    ];
    for (const endpoint of registry.list()) this.#add(endpoint);
  }

  /** Questions under way. */
  get asking(): number {
    return this.#asking;
  }

  /** Stops for good; the models stay. */
  close(): void {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    for (const endpoint of [...this.#targets.keys()]) this.#remove(endpoint);
    this.#wheel.clear();
  }

  #add(endpoint: PoolEndpoint): void {
    const target = new Target(endpoint);
    this.#targets.set(endpoint, target);
    this.#look(target);
    this.#soon(target);
  }

  #again(endpoint: PoolEndpoint): void {
    const target = this.#targets.get(endpoint);
    if (target === undefined) return;
    this.#look(target);
    if (target.phase !== "asking") this.#soon(target);
  }

  /** Begins the first look. */
  #look(target: Target): void {
    const { clock, registry } = this.#options;
    const { state, models } = target.endpoint;
    if (state === "down" || models !== undefined || target.firstLook !== undefined) return;
    target.firstLook = expireAfter(clock, ASK_TIMEOUT, () => this.#looked(target, "overdue"));
    registry.lookForModels(target.endpoint, "open");
  }

  /** Nothing waits for the first look any more. */
  #looked(target: Target | undefined, look: "overdue" | "over"): void {
    if (target === undefined) return;
    target.firstLook?.cancel();
    target.firstLook = undefined;
    this.#options.registry.lookForModels(target.endpoint, look);
  }

  #remove(endpoint: PoolEndpoint): void {
    const target = this.#targets.get(endpoint);
    if (target === undefined) return;
    this.#targets.delete(endpoint);
    const { question } = target;
    this.#rest(target);
    question?.cancel();
    this.#looked(target, "over");
    this.#next();
  }

  /** Takes the target from wherever it is. */
  #rest(target: Target): void {
    this.#wheel.take(target);
    this.#queue.delete(target);
    if (target.phase === "asking") this.#asking--;
    target.timeout?.cancel();
    target.timeout = undefined;
    target.question = undefined;
    target.phase = "idle";
  }

  #soon(target: Target): void {
    this.#rest(target);
    const { state, models } = target.endpoint;
    if (state === "down" || models?.source === "file") return;
    target.phase = "queued";
    this.#queue.add(target);
    this.#next();
  }

  #next(): void {
    for (const target of this.#queue) {
      if (this.#asking >= MAX_ASKING) return;
      this.#queue.delete(target);
      this.#ask(target);
    }
  }

  #ask(target: Target): void {
    const { clock, ask } = this.#options;
    target.phase = "asking";
    this.#asking++;
    const question = ask(target.endpoint, (answer) => this.#answered(target, answer));
    target.question = question;
    target.timeout = expireAfter(clock, ASK_TIMEOUT, () => {
      question.cancel();
      this.#answered(target, { kind: "silent" });
    });
  }

  #answered(target: Target, answer: ModelAnswer): void {
    const { clock, random, registry, onProblem } = this.#options;
    const { endpoint } = target;
    this.#rest(target);
    if (answer.kind === "listed") registry.listed(endpoint, answer.models);
    if (answer.kind !== "silent") {
      const problem = answer.kind === "unusable" ? answer.problem : "";
      if (problem !== target.problem) onProblem(endpoint, problem);
      target.problem = problem;
    }
    // After the list is known: who waits for it decides by it.
    if (answer.kind !== "silent") this.#looked(target, "over");
    else if (endpoint.modelLook === "open") this.#looked(target, "overdue");
    target.phase = "waiting";
    this.#wheel.put(target, clock.now() + ASK_INTERVAL * (0.8 + 0.4 * random.next()));
    this.#next();
  }
}

/**
 * Waits until no endpoint is awaited, for `START_LOOK` at most. A gateway that opens its port after this has all the servers that
 * answer as candidates of its first requests. Otherwise those requests would go to the one server that was first to list
 * the model, and nothing would be left to retry on.
 */
export function firstLookOver(registry: EndpointRegistry, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    if (registry.awaited === 0) {
      resolve();
      return;
    }
    const end = (): void => {
      overdue.cancel();
      unsubscribe();
      resolve();
    };
    const overdue = expireAfter(clock, START_LOOK, end);
    const unsubscribe = registry.onLooked(() => {
      if (registry.awaited === 0) end();
    });
  });
}
