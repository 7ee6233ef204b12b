import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** How it answers: as servers do now, as earlier ones did, never, or just so. */
export type RenderReply =
  | "current"
  | "earlier"
  | "hang"
  | { readonly status?: number; readonly body: string; readonly headers?: Readonly<Record<string, string>> };

/** A question as it arrived. */
export interface RenderQuestion {
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
}

/** A vLLM render server on the loopback interface whose tokens are words: white space makes no difference to them. */
export class RenderServer {
  reply: RenderReply = "current";
  readonly questions: RenderQuestion[] = [];
  /** Clients that went away before they had an answer. */
  abandoned = 0;
  readonly #server: Server;
  readonly #words = new Map<string, number>();

  private constructor() {
    this.#server = createServer((request, response) => {
      const pieces: Buffer[] = [];
      request.on("data", (piece: Buffer) => pieces.push(piece));
      request.on("end", () => this.#answer(request, Buffer.concat(pieces).toString(), response));
    });
  }

  static async start(): Promise<RenderServer> {
    const fake = new RenderServer();
    await new Promise<void>((resolve) => fake.#server.listen(0, "127.0.0.1", resolve));
    return fake;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  /** Its tokens for a text. */
  tokens(text: string): number[] {
    const words = text.split(/\s+/).filter((word) => word !== "");
    return words.map((word) => {
      let token = this.#words.get(word);
      if (token === undefined) {
        token = 1000 + this.#words.size;
        this.#words.set(word, token);
      }
      return token;
    });
  }

  #answer(request: IncomingMessage, text: string, response: ServerResponse): void {
    this.questions.push({ path: request.url!, headers: request.headers, text });
    response.on("close", () => {
      if (!response.writableEnded) this.abandoned++;
    });
    if (this.reply === "hang") return;
    if (typeof this.reply === "object") {
      response.writeHead(this.reply.status ?? 200, this.reply.headers).end(this.reply.body);
      return;
    }
    const answer = this.#render(request.url!, JSON.parse(text), this.reply === "earlier");
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
  }

  #render(
    path: string,
    body: { prompt?: string | string[]; messages?: { content: unknown }[] },
    earlier: boolean,
  ): unknown {
    if (path === "/v1/completions/render") {
      const prompts = ([] as string[]).concat(body.prompt ?? []).map((prompt) => this.tokens(prompt));
      return prompts.map((tokens) => (earlier ? { prompt: "...", prompt_token_ids: tokens } : generate(tokens)));
    }
    const said = body.messages!.map(({ content }) => (typeof content === "string" ? content : JSON.stringify(content)));
    const tokens = this.tokens(said.join(" "));
    return earlier ? [body.messages, [{ prompt_token_ids: tokens }]] : generate(tokens);
  }
}

function generate(tokens: readonly number[]): unknown {
  return { request_id: "r", token_ids: tokens, features: null, sampling_params: { temperature: 1 }, stream: false };
}
