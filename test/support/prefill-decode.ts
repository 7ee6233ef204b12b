import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";

/** A request as a model server has got it. */
export interface Leg {
  readonly headers: IncomingHttpHeaders;
  readonly body: Readonly<Record<string, unknown>>;
}

/** A server of a test. */
export interface Role {
  readonly port: number;
  readonly legs: readonly Leg[];
  /** Forgets the requests so far. */
  forget(): void;
  close(): void;
}

const METRICS = "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n";
const PREFILLER = "x-prefiller-host-port";

/**
 * A model server of one role. Where a request asks for the KV cache to be fetched (`do_remote_decode`), it answers with the
 * place of its own, as vLLM's NIXL connector does; else with text, and in a stream where the request asks for one.
 */
export async function startEngine(engineId: string): Promise<Role> {
  const legs: Leg[] = [];
  return listening(legs, async (request, response) => {
    if (request.method === "GET") {
      response.end(METRICS);
      return;
    }
    const body = JSON.parse(await textOf(request)) as Leg["body"];
    legs.push({ headers: request.headers, body });
    const transfer = body["kv_transfer_params"] as { do_remote_decode?: boolean } | undefined;
    const answer = {
      ...{ id: "1", object: "chat.completion", model: body["model"] },
      choices: [{ index: 0, message: { role: "assistant", content: `from ${engineId}` }, finish_reason: "stop" }],
      usage: { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 },
      ...(transfer?.do_remote_decode === true
        ? { kv_transfer_params: { do_remote_prefill: true, remote_engine_id: engineId, remote_block_ids: [1, 2] } }
        : {}),
    };
    if (body["stream"] === true) {
      response.setHeader("content-type", "text/event-stream");
      response.end(`data: ${JSON.stringify({ ...answer, object: "chat.completion.chunk" })}\n\ndata: [DONE]\n\n`);
    } else response.end(JSON.stringify(answer));
  });
}

/**
 * llm-d's sidecar before a decode engine, as far as its protocol with NIXL goes: the first leg goes to the endpoint of the
 * header, with one token to generate, no stream, and `do_remote_decode`. The second leg goes to the engine, as the client wrote
 * it, with the place of the KV cache. Without the header there is one leg. Other paths go to the engine.
 * @param allowed the `host:port` that may be a prefill endpoint; the sidecar refuses others
 */
export async function startSidecar(enginePort: number, allowed: () => readonly string[]): Promise<Role> {
  const legs: Leg[] = [];
  const engine = `http://127.0.0.1:${enginePort}`;
  return listening(legs, async (request, response) => {
    const path = request.url!;
    if (request.method === "GET") {
      response.end(await (await fetch(engine + path)).text());
      return;
    }
    const body = JSON.parse(await textOf(request)) as Leg["body"];
    legs.push({ headers: request.headers, body });
    const prefiller = String(request.headers[PREFILLER] ?? "")
      .split(",")[0]!
      .trim();
    let transfer: unknown;
    if (prefiller !== "") {
      if (!allowed().includes(prefiller)) {
        response.writeHead(403).end("Forbidden: prefill target not allowed");
        return;
      }
      const { stream_options: _, ...rest } = body;
      const first = {
        ...{ ...rest, stream: false, max_tokens: 1, max_completion_tokens: 1 },
        kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false, remote_engine_id: null },
      };
      const prefilled = await post(`http://${prefiller}${path}`, first);
      if (!prefilled.ok) {
        response.writeHead(prefilled.status).end(await prefilled.text());
        return;
      }
      transfer = ((await prefilled.json()) as { kv_transfer_params?: unknown }).kv_transfer_params;
    }
    const decoded = await post(
      engine + path,
      transfer === undefined ? body : { ...body, kv_transfer_params: transfer },
    );
    response.writeHead(decoded.status, { "content-type": decoded.headers.get("content-type") ?? "application/json" });
    response.end(await decoded.text());
  });
}

function post(url: string, body: object): Promise<Response> {
  return fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

async function listening(
  legs: Leg[],
  answer: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
): Promise<Role> {
  const server: Server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => response.writeHead(502).end(String(error)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    legs,
    forget() {
      legs.length = 0;
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
