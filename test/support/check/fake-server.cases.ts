import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** 2026-01-02T03:04:05Z in seconds: the present of the tests. */
export const NOW = 1_767_323_045;

/** A request as the fake server got it. */
export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly json: { readonly model?: string; readonly stream?: boolean };
}

type Handler = (request: SeenRequest, response: ServerResponse) => void;

/** The page of a server that does everything right and has one adapter. */
export const GOOD_PAGE = `# HELP vllm:num_requests_waiting Requests in the queue.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="tiny"} 0.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="tiny"} 1.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{model_name="tiny"} 0.25
# TYPE vllm:lora_requests_info gauge
vllm:lora_requests_info{max_lora="4",running_lora_adapters="sql, poet",waiting_lora_adapters=""} ${NOW - 5}.5
vllm:lora_requests_info{max_lora="4",running_lora_adapters="",waiting_lora_adapters="sql"} ${NOW - 60}
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",num_gpu_blocks="2048"} 1.0
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits_total 48
`;

const USAGE = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13, prompt_tokens_details: { cached_tokens: 8 } };

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

/** The events of a correct stream. */
export function goodEvents(chat: boolean, model: string): string[] {
  const event = (choices: unknown[], usage: unknown): string =>
    JSON.stringify({ object: chat ? "chat.completion.chunk" : "text_completion", model, choices, usage });
  const piece = chat ? { delta: { content: "Hi" } } : { text: "Hi" };
  return [event([{ index: 0, ...piece, finish_reason: null }], null), event([], USAGE), "[DONE]"];
}

/** Answers as a correct server does. */
export const good: Handler = ({ path, json: { model = "", stream } }, response) => {
  const chat = path === "/v1/chat/completions";
  if (path === "/metrics") response.writeHead(200, { "content-type": "text/plain; version=0.0.4" }).end(GOOD_PAGE);
  else if (path === "/v1/models")
    json(response, 200, { object: "list", data: [{ id: "tiny" }, { id: "sql", parent: "tiny" }] });
  else if (!chat && path !== "/v1/completions") json(response, 404, { error: { message: "no such path" } });
  else if (model !== "tiny" && model !== "sql") json(response, 404, { error: { message: `no model ${model}` } });
  else if (stream === true) {
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
    for (const data of goodEvents(chat, model)) response.write(`data: ${data}\n\n`);
    response.end();
  } else {
    const piece = chat ? { message: { role: "assistant", content: "Hi" } } : { text: "Hi" };
    const object = chat ? "chat.completion" : "text_completion";
    json(response, 200, { object, model, choices: [{ index: 0, ...piece, finish_reason: "length" }], usage: USAGE });
  }
};

/** A server of these tests. */
export interface FakeServer {
  readonly origin: string;
  readonly requests: SeenRequest[];
}

const closing: (() => Promise<void>)[] = [];

/** For `afterEach`. */
export async function closeFakeServers(): Promise<void> {
  for (const close of closing.splice(0)) await close();
}

/** Serves until `closeFakeServers`. @param handler what differs from `good`: returns false to leave it to that */
export async function fakeServer(
  handler: (request: SeenRequest, response: ServerResponse) => boolean = () => false,
): Promise<FakeServer> {
  const requests: SeenRequest[] = [];
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on("data", (piece: Buffer) => pieces.push(piece));
    request.on("end", () => {
      const text = Buffer.concat(pieces).toString();
      const seen: SeenRequest = {
        method: request.method!,
        path: request.url!,
        headers: request.headers,
        json: text === "" ? {} : JSON.parse(text),
      };
      requests.push(seen);
      if (!handler(seen, response)) good(seen, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(async () => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  });
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

/** A server whose metrics page is another one. */
export function withPage(page: string, type = "text/plain; version=0.0.4"): Promise<FakeServer> {
  return fakeServer(({ path }, response) => {
    if (path !== "/metrics") return false;
    response.writeHead(200, { "content-type": type }).end(page);
    return true;
  });
}
