import type { BatchingConfig } from "../../../../src/lab/simulator/batching/config.ts";

/** A request of a script: when it comes, when it is given up, and what it is. */
export interface ScriptedRequest {
  readonly at: number;
  readonly abortAt?: number | undefined;
  readonly prompt: readonly number[];
  readonly answer?: readonly number[] | undefined;
  readonly outputTokens: number;
  readonly adapter?: string | undefined;
}

/** What became of it. */
export interface Fate {
  state: "waiting" | "running" | "finished" | "aborted" | "context-length" | "queue-full";
  /** When each token came. */
  readonly tokens: number[];
  startedAt: number | undefined;
  cachedTokens: number;
}

interface Block {
  holders: number;
  contents: string | undefined;
  /** When it got its contents, counted. */
  since: number;
}

interface Item {
  readonly request: ScriptedRequest;
  readonly fate: Fate;
  blocks: Block[];
  computed: number;
  /** Tokens to compute before it generates. */
  prompt: number;
  scheduled: number;
}

/**
 * The obvious engine with continuous batching: lists of objects, prefixes as text, everything looked up anew each time. It
 * has nothing in common with the real one but the rules.
 */
export function runSlowly(config: BatchingConfig, requests: readonly ScriptedRequest[]) {
  const { blockSize, cost } = config;
  const items = requests.map(
    (request): Item => ({
      request,
      fate: { state: "waiting", tokens: [], startedAt: undefined, cachedTokens: 0 },
      blocks: [],
      computed: 0,
      prompt: 0,
      scheduled: 0,
    }),
  );
  /** Not held by anybody, the next one to be taken first. */
  let free: Block[] = Array.from({ length: config.kvBlocks }, () => ({ holders: 0, contents: undefined, since: 0 }));
  const all = [...free];
  let waiting: Item[] = [];
  let running: Item[] = [];
  /** Adapters that are loaded, and when each was used last, counted. */
  const loaded = new Map<string, number>();
  let count = 0;
  let stepEnd = Number.POSITIVE_INFINITY;
  let now = 0;
  const totals = { preemptions: 0, adapterLoads: 0, steps: 0, hits: 0 };

  const known = (item: Item): number => item.request.prompt.length + item.fate.tokens.length;
  const contentsOf = (item: Item, index: number): string | undefined => {
    const tokens = [
      ...item.request.prompt,
      ...(item.request.answer?.slice(0, Math.min(item.request.outputTokens, item.request.answer.length)) ?? []),
    ];
    const end = (index + 1) * blockSize;
    if (!config.prefixCache || end > tokens.length) return undefined;
    return `${item.request.adapter ?? ""}: ${tokens.slice(0, end).join()}`;
  };
  const takeBlock = (): Block => {
    const block = free.shift()!;
    block.contents = undefined;
    block.holders = 1;
    return block;
  };
  const letGo = (item: Item): void => {
    for (const block of item.blocks.toReversed()) {
      block.holders--;
      if (block.holders === 0) free.push(block);
    }
    item.blocks = [];
    item.computed = 0;
    item.scheduled = 0;
    running = running.filter((other) => other !== item);
    if (item.request.adapter !== undefined) loaded.set(item.request.adapter, ++count);
  };
  const adaptersRunning = (): Set<string> =>
    new Set(running.flatMap(({ request }) => (request.adapter === undefined ? [] : [request.adapter])));

  /** Blocks that the step fills can be found from now on. */
  const fill = (item: Item, upTo: number): void => {
    item.blocks.forEach((block, i) => {
      if (block.contents !== undefined || (i + 1) * blockSize > upTo) return;
      block.contents = contentsOf(item, i);
      block.since = ++count;
    });
  };

  /** Forms a batch and starts the step. */
  function begin(): void {
    let budget = config.tokenBudget;
    let preempted = false;
    let loads = 0;
    const batch: { item: Item; before: number; tokens: number; atPrompt: boolean }[] = [];
    for (let i = 0; i < running.length && budget > 0; i++) {
      const item = running[i]!;
      const tokens = Math.min(known(item) - item.computed, budget);
      const missing = Math.ceil((item.computed + tokens) / blockSize) - item.blocks.length;
      while (running.includes(item) && free.length < missing) {
        const victim = running.at(-1)!;
        letGo(victim);
        victim.fate.state = "waiting";
        waiting.unshift(victim);
        totals.preemptions++;
        preempted = true;
      }
      if (!running.includes(item)) break;
      for (let n = 0; n < missing; n++) item.blocks.push(takeBlock());
      batch.push({ item, before: item.computed, tokens, atPrompt: item.computed < item.prompt });
      fill(item, item.computed + tokens);
      budget -= tokens;
    }
    for (const item of preempted ? [] : [...waiting]) {
      if (budget === 0 || running.length === config.maxNumSeqs) break;
      const { adapter } = item.request;
      const used = adaptersRunning();
      if (adapter !== undefined && !used.has(adapter) && used.size === config.maxLoras) continue;
      const found: Block[] = [];
      while ((found.length + 1) * blockSize < known(item)) {
        const contents = contentsOf(item, found.length);
        const [oldest] = all
          .filter((block) => contents !== undefined && block.contents === contents)
          .sort((a, b) => a.since - b.since);
        if (oldest === undefined) break;
        found.push(oldest);
      }
      const cached = found.length * blockSize;
      const tokens = Math.min(known(item) - cached, budget);
      const missing = Math.ceil((cached + tokens) / blockSize) - found.length;
      if (missing + found.filter((block) => block.holders === 0).length > free.length) break;
      waiting = waiting.filter((other) => other !== item);
      for (const block of found) block.holders++;
      free = free.filter((block) => block.holders === 0);
      item.blocks = [...found, ...Array.from({ length: missing }, takeBlock)];
      item.computed = cached;
      item.prompt = known(item);
      item.fate.state = "running";
      if (item.fate.startedAt === undefined) {
        item.fate.startedAt = now;
        item.fate.cachedTokens = cached;
        totals.hits += cached;
      }
      if (adapter !== undefined) {
        if (!loaded.has(adapter)) {
          loads++;
          totals.adapterLoads++;
          if (loaded.size === config.maxLoras) {
            const [victim] = [...loaded].filter(([name]) => !used.has(name)).sort((a, b) => a[1] - b[1])[0]!;
            loaded.delete(victim);
          }
        }
        loaded.set(adapter, ++count);
      }
      running.push(item);
      batch.push({ item, before: cached, tokens, atPrompt: true });
      fill(item, cached + tokens);
      budget -= tokens;
    }
    for (const { item, tokens } of batch) item.scheduled = tokens;
    if (batch.length === 0) {
      stepEnd = Number.POSITIVE_INFINITY;
      return;
    }
    const prompts = batch.filter(({ atPrompt }) => atPrompt);
    const sum = (numbers: number[]): number => numbers.reduce((a, b) => a + b, 0);
    totals.steps++;
    stepEnd =
      now +
      cost.base +
      cost.prefill * sum(prompts.map(({ tokens }) => tokens)) +
      cost.attention * sum(prompts.map(({ tokens, before }) => tokens * (before + tokens / 2))) +
      cost.context * sum(batch.filter(({ atPrompt }) => !atPrompt).map(({ item }) => known(item))) +
      cost.sequence * batch.length +
      config.loraLoadMs * loads;
  }

  function end(): void {
    for (const item of running) item.computed += item.scheduled;
    for (const item of [...running]) {
      const complete = item.scheduled > 0 && item.computed === known(item);
      item.scheduled = 0;
      if (!complete) continue;
      item.fate.tokens.push(now);
      if (item.fate.tokens.length < item.request.outputTokens) continue;
      letGo(item);
      item.fate.state = "finished";
    }
    begin();
  }

  function arrive(item: Item): void {
    const { prompt, outputTokens } = item.request;
    const idle = stepEnd === Number.POSITIVE_INFINITY;
    if (prompt.length + outputTokens > Math.min(config.maxModelLen, config.kvBlocks * blockSize)) {
      item.fate.state = "context-length";
    } else if (!idle && waiting.length >= config.maxWaitingQueueLength) {
      item.fate.state = "queue-full";
    } else {
      waiting.push(item);
      if (idle) begin();
    }
  }

  function abort(item: Item): void {
    if (item.fate.state === "waiting" && waiting.includes(item)) waiting = waiting.filter((other) => other !== item);
    else if (item.fate.state === "running") letGo(item);
    else return;
    item.fate.state = "aborted";
  }

  const events = items
    .flatMap((item) => [
      { at: item.request.at, happens: () => arrive(item) },
      ...(item.request.abortAt === undefined ? [] : [{ at: item.request.abortAt, happens: () => abort(item) }]),
    ])
    .sort((a, b) => a.at - b.at);
  for (;;) {
    const next = events[0];
    now = Math.min(stepEnd, next?.at ?? Number.POSITIVE_INFINITY);
    if (now === Number.POSITIVE_INFINITY) break;
    if (now === stepEnd) {
      end();
    } else {
      events.shift();
      next!.happens();
    }
  }
  return { fates: items.map(({ fate }) => fate), totals };
}
