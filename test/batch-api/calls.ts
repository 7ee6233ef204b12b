import { poll } from "../support/poll.ts";

/** A batch as the API has it, as far as tests look. */
export interface ShownBatch {
  readonly id: string;
  readonly status: string;
  readonly output_file_id: string | null;
  readonly error_file_id: string | null;
  readonly request_counts: { readonly total: number; readonly completed: number; readonly failed: number };
}

const ENDED = ["failed", "completed", "expired", "cancelled"];

/** A line of an input of chat completions. */
export function chatLine(customId: string, model = "sim"): string {
  const body = { model, messages: [{ role: "user", content: `hello ${customId}` }], max_tokens: 2 };
  return JSON.stringify({ custom_id: customId, method: "POST", url: "/v1/chat/completions", body });
}

/** An input of so many lines: the prefix and 1, 2 and so on. */
export function chatLines(prefix: string, count: number): string {
  return Array.from({ length: count }, (_, at) => `${chatLine(`${prefix}${at + 1}`)}\n`).join("");
}

/** The Batch API of a server, as one caller. */
export class BatchCalls {
  readonly #key: string;
  #url: string;

  /** @param url with /v1 @param key what the server asks for; "" = none */
  constructor(url: string, key = "") {
    this.#url = url;
    this.#key = key;
  }

  /** The server has another address from now on. */
  moveTo(url: string): void {
    this.#url = url;
  }

  async call<T>(method: string, path: string, body?: FormData | object): Promise<T> {
    const isForm = body instanceof FormData;
    const response = await fetch(`${this.#url}${path}`, {
      method,
      headers: {
        ...(this.#key === "" ? {} : { authorization: `Bearer ${this.#key}` }),
        ...(body === undefined || isForm ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${response.status} ${text}`);
    return (path.endsWith("/content") ? text : JSON.parse(text)) as T;
  }

  /** Uploads an input and makes its batch. @returns its id */
  async submit(content: string, window = "24h", endpoint = "/v1/chat/completions"): Promise<string> {
    const form = new FormData();
    form.append("purpose", "batch");
    form.append("file", new Blob([content]), "in.jsonl");
    const { id } = await this.call<{ id: string }>("POST", "/files", form);
    const wanted = { input_file_id: id, endpoint, completion_window: window };
    return (await this.call<ShownBatch>("POST", "/batches", wanted)).id;
  }

  get(id: string): Promise<ShownBatch> {
    return this.call("GET", `/batches/${id}`);
  }

  /** Waits for the end of a batch. */
  async ended(id: string, limitMs?: number): Promise<ShownBatch> {
    return poll(
      `the end of ${id}`,
      async () => {
        const batch = await this.get(id);
        return ENDED.includes(batch.status) ? batch : undefined;
      },
      limitMs,
    );
  }

  /** The custom ids of an ended batch that have an answer, each as often as it has one, and those among them with success. */
  async answers(id: string): Promise<{
    readonly all: readonly string[];
    readonly good: readonly string[];
    readonly codes: ReadonlySet<string>;
  }> {
    const { output_file_id: output, error_file_id: errors } = await this.get(id);
    const good = await this.#lines(output);
    const bad = await this.#lines(errors);
    return {
      all: [...good, ...bad].map(({ custom_id }) => custom_id),
      good: good.map(({ custom_id }) => custom_id),
      codes: new Set(bad.map(({ error, response }) => error?.code ?? String(response?.status_code))),
    };
  }

  async #lines(file: string | null): Promise<AnswerLine[]> {
    if (file === null) return [];
    const text = await this.call<string>("GET", `/files/${file}/content`);
    return text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as AnswerLine);
  }
}

interface AnswerLine {
  readonly custom_id: string;
  readonly response: { readonly status_code: number } | null;
  readonly error: { readonly code: string } | null;
}
