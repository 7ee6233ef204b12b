import type { ServerResponse } from "node:http";
import type { AnswerShape, AnswerUsage } from "./answer-shape.ts";
import { SimApiError } from "./api-error.ts";
import type { SimContext } from "./context.ts";
import type { GenerationApi, GenerationRequest, Prompt } from "./generation-request.ts";
import type { SimOptions } from "./options.ts";
import type { RequestRecord } from "./request-log.ts";
import { type BodyWriter, bodyWriter, CannedText, GivenText, type TextSource } from "./response.ts";
import type { RefusalReason, Sequence, SequenceListener } from "./sequence.ts";
import { errorBody, shapeOf } from "./shapes.ts";
import { tokenizePieces } from "./tokenizer.ts";

/** Characters that are joined before one write to the client. */
const WRITE_SIZE = 32 * 1024;

/** The member of a request that a prompt that is too long is in. */
const PROMPT_MEMBER: Readonly<Record<GenerationApi, string>> = {
  chat: "messages",
  completions: "prompt",
  messages: "messages",
  responses: "input",
};

/** One answer of a response. Counts the tokens of the engine, and makes their text when the client can take it. */
class Choice implements SequenceListener {
  readonly #owner: Generation;
  sequence: Sequence | undefined;
  /** The tokens that were given, for echo mode and calls. */
  pieces: readonly string[] | undefined;
  text: TextSource | undefined;
  /** Tokens that may be written, and tokens that were written. */
  available = 0;
  written = 0;
  opened = false;
  closed = false;
  refusal: RefusalReason | undefined;

  constructor(owner: Generation) {
    this.#owner = owner;
  }

  /** A source that begins with the first token. */
  newText(): TextSource {
    return this.pieces ? new GivenText(this.pieces) : new CannedText(this.sequence!.seed);
  }

  /** All tokens produced so far. */
  wholeText(): string {
    const source = this.newText();
    let whole = "";
    for (let i = 0; i < this.sequence!.produced; i++) whole += source.next();
    return whole;
  }

  get finished(): boolean {
    return this.sequence?.state === "finished";
  }

  onToken(sequence: Sequence, count: number): void {
    this.available += count;
    // The last token goes out together with the end of the answer, which follows immediately.
    this.#owner.tokens(this, sequence.produced === sequence.target);
  }

  onFinish(): void {
    this.#owner.finished();
  }

  onReject(_sequence: Sequence, reason: RefusalReason): void {
    this.refusal = reason;
  }
}

/**
 * One inference request, from its sequences in the engine to the last byte of its response. The engine produces tokens at their
 * times, even if the client is slow. For a slow client, tokens are only counted, so one write bounds the memory of a request.
 * When the client leaves, its sequences end at once.
 */
export class Generation {
  readonly #context: SimContext;
  readonly #request: GenerationRequest;
  readonly #response: ServerResponse;
  readonly #record: RequestRecord;
  readonly #faults: SimOptions;
  readonly #shape: AnswerShape;
  readonly #choices: Choice[] = [];
  readonly #writer: BodyWriter;
  #blocked = false;
  #dropping = false;
  #done = false;

  /** @param faults the settings of the server with those of this request */
  constructor(
    context: SimContext,
    request: GenerationRequest,
    response: ServerResponse,
    record: RequestRecord,
    faults: SimOptions,
  ) {
    this.#context = context;
    this.#request = request;
    this.#response = response;
    this.#record = record;
    this.#faults = faults;
    this.#shape = shapeOf(request.api, {
      requestId: record.id,
      created: Math.floor(context.clock.wall() / 1000),
      model: request.model.name,
      includeUsage: request.stream && request.includeUsage,
      call: request.call,
    });
    this.#writer = bodyWriter(response, faults.slowBodyBytesPerSec, context.clock, () => {
      this.#blocked = false;
      if (request.stream) this.#flush();
    });
  }

  /**
   * Submits every prompt.
   * @throws SimApiError 429 when the queue is full, 400 when a prompt does not fit the context; then no prompt runs
   */
  start(): void {
    const { prompts, n } = this.#request;
    for (const prompt of prompts) {
      for (let copy = 0; copy < n; copy++) {
        const choice = new Choice(this);
        this.#choices.push(choice);
        this.#submit(choice, prompt, copy);
        if (choice.refusal) {
          this.#stop();
          throw this.#refused(choice.refusal, prompt);
        }
      }
    }
    this.#context.generations.add(this);
    this.#response.on("close", () => this.#stop());
  }

  /** Handles new tokens; `last` = the end of that answer follows. */
  tokens(choice: Choice, last: boolean): void {
    this.#record.firstTokenAt ??= this.#context.clock.wall();
    const limit = this.#faults.dropAfterTokens;
    if (limit >= 0 && choice.available >= limit) {
      choice.available = limit;
      this.#drop();
    } else if (this.#request.stream && !last) {
      this.#flush();
    }
  }

  /** An answer is complete. */
  finished(): void {
    if (this.#done) return;
    if (this.#request.stream) this.#flush();
    else if (this.#choices.every((choice) => choice.finished)) this.#sendDocument();
  }

  /** Ends the response early, with the reason if the response can still carry it. */
  interrupt(error: SimApiError): void {
    if (this.#done) return;
    this.#stop();
    if (!this.#response.headersSent) {
      this.#response.writeHead(error.status, { "content-type": "application/json" });
      this.#response.end(JSON.stringify(errorBody(error, this.#record.path)));
    } else {
      this.#response.end(this.#request.stream ? this.#shape.failing(error) : undefined);
    }
  }

  #submit(choice: Choice, prompt: Prompt, copy: number): void {
    const { model, maxTokens, ignoreEos, seed, cacheSalt, remotePrefill, call } = this.#request;
    const pieces = call ? tokenizePieces(call.arguments) : this.#faults.mode === "echo" ? prompt.echo() : undefined;
    const stallAfter = this.#faults.stallAfterTokens;
    choice.sequence = this.#context.engine.submit(
      {
        prompt: prompt.tokens,
        adapter: model.adapter,
        cacheKey: `${model.cacheKey}\u0000${cacheSalt}`,
        maxTokens,
        ignoreEos,
        outputTokens: pieces?.length,
        seed: seed === undefined ? undefined : seed + copy,
        remotePrefill,
        stallAfter: stallAfter < 0 ? undefined : stallAfter,
      },
      choice,
    );
    choice.pieces = pieces;
    choice.text = choice.newText();
  }

  #refused(reason: RefusalReason, prompt: Prompt): SimApiError {
    if (reason === "queue-full") {
      const { maxWaitingQueueLength } = this.#context.engine.config;
      return new SimApiError(429, `The queue is full: ${maxWaitingQueueLength} requests are waiting already`);
    }
    const { maxModelLen } = this.#context.engine.config;
    const input = prompt.tokens.length;
    const output = this.#request.maxTokens;
    const wanted = output === undefined ? `${input} in the prompt` : `${input} in the prompt and ${output} to generate`;
    return new SimApiError(
      400,
      `This model's maximum context length is ${maxModelLen} tokens, but ${wanted} were requested.`,
      PROMPT_MEMBER[this.#request.api],
    );
  }

  #flush(): void {
    if (this.#blocked || this.#done) return;
    const shape = this.#shape;
    let text = "";
    let allClosed = true;
    for (let index = 0; index < this.#choices.length; index++) {
      const choice = this.#choices[index]!;
      if (choice.available > 0 && !choice.opened) {
        choice.opened = true;
        text += shape.opening(index, this.#usage());
      }
      while (choice.written < choice.available) {
        choice.written++;
        text += shape.token(index, choice.text!.nextJson());
        if (text.length < WRITE_SIZE) continue;
        this.#blocked = !this.#write(text);
        if (this.#blocked) return;
        text = "";
      }
      if (choice.finished && !choice.closed) {
        choice.closed = true;
        text += shape.closing(index, choice.sequence!.finishReason, () => choice.wholeText());
      }
      allClosed &&= choice.closed;
    }
    if (allClosed) {
      this.#write(text + shape.ending(this.#usage()));
      this.#complete();
    } else {
      if (text !== "") this.#blocked = !this.#write(text);
      if (this.#dropping) this.#reset();
    }
  }

  #write(text: string): boolean {
    if (!this.#response.headersSent) {
      this.#response.writeHead(200, {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache",
      });
    }
    return this.#writer.write(text);
  }

  #sendDocument(): void {
    const choices = this.#choices.map((choice) => ({
      text: choice.wholeText(),
      finishReason: choice.sequence!.finishReason,
    }));
    const document = this.#shape.document(choices, this.#usage());
    this.#response.writeHead(200, {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(document),
    });
    this.#writer.write(document);
    this.#complete();
  }

  #usage(): AnswerUsage {
    const { n } = this.#request;
    let promptTokens = 0;
    let cachedTokens = 0;
    let completionTokens = 0;
    for (const [index, { sequence }] of this.#choices.entries()) {
      completionTokens += sequence!.produced;
      // Copies of one prompt count once.
      if (index % n !== 0) continue;
      promptTokens += sequence!.promptTokens;
      cachedTokens += sequence!.cachedTokens;
    }
    const cached = this.#context.engine.config.enableKvcache ? cachedTokens : undefined;
    return { promptTokens, completionTokens, cachedTokens: cached };
  }

  #complete(): void {
    this.#done = true;
    this.#context.generations.delete(this);
    this.#writer.end();
  }

  /** The fault `drop-after-tokens`: the tokens before the drop go out, then the connection is reset. */
  #drop(): void {
    this.#record.fault = "drop-after-tokens";
    this.#dropping = true;
    this.#abortSequences();
    if (this.#request.stream) this.#flush();
    else this.#reset();
  }

  #reset(): void {
    this.#done = true;
    const { socket } = this.#response;
    if (this.#response.headersSent) this.#writer.flushed(() => socket?.resetAndDestroy());
    else socket?.resetAndDestroy();
  }

  #stop(): void {
    this.#done = true;
    this.#context.generations.delete(this);
    this.#writer.stop();
    this.#abortSequences();
  }

  #abortSequences(): void {
    for (const { sequence } of this.#choices) if (sequence) this.#context.engine.abort(sequence);
  }
}
