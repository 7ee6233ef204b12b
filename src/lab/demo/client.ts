import type { Dispatcher } from "undici";
import type { Clock } from "../../base/clock/clock.ts";
import type { WorkloadRequest } from "./workload.ts";

/** What became of one request, as its client saw it. */
export interface Outcome {
  /** `interrupted`: the answer had begun and was cut. */
  readonly kind: "completed" | "failed" | "interrupted";
  /** Milliseconds from sending to the first token; NaN without one. */
  readonly ttftMs: number;
  readonly outputTokens: number;
  /** What went wrong, for people. */
  readonly detail: string;
}

/** An answer without a byte for this long counts as failed. */
export const ANSWER_LIMIT_MS = 15_000;

/** What went wrong between the demo and the gateway, for people who know neither of the libraries in between. */
function reasonOf(error: unknown): string {
  const { code, message } = error as { readonly code?: string; readonly message?: string };
  switch (code) {
    case "UND_ERR_HEADERS_TIMEOUT":
      return `no answer began within ${ANSWER_LIMIT_MS / 1000} s`;
    case "UND_ERR_BODY_TIMEOUT":
      return `the answer stood still for ${ANSWER_LIMIT_MS / 1000} s`;
    case "UND_ERR_CONNECT_TIMEOUT":
      return "the gateway took no connection in time";
    case "UND_ERR_SOCKET":
    case "ECONNRESET":
      return "the gateway ended the connection before its answer";
    default:
      return message ?? String(error);
  }
}

/** Sends one streaming chat request and reads its answer to the end; never throws. */
export async function send(client: Dispatcher, request: WorkloadRequest, clock: Clock): Promise<Outcome> {
  const started = clock.now();
  let ttftMs = Number.NaN;
  let outputTokens = 0;
  const outcome = (kind: Outcome["kind"], detail = ""): Outcome => ({ kind, ttftMs, outputTokens, detail });
  try {
    const response = await client.request({
      method: "POST",
      path: "/v1/chat/completions",
      headers: { "content-type": "application/json", "x-request-id": `demo-${request.number}` },
      body: JSON.stringify({
        model: "sim",
        stream: true,
        max_tokens: request.maxTokens,
        ignore_eos: true,
        messages: [
          { role: "system", content: request.system },
          { role: "user", content: request.question },
        ],
      }),
    });
    if (response.statusCode !== 200) {
      const text = await response.body.text();
      return outcome("failed", `${response.statusCode} ${text.slice(0, 200)}`);
    }
    let tail = "";
    let done = false;
    let error = "";
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      tail += chunk.toString("latin1");
      for (;;) {
        const end = tail.indexOf("\n\n");
        if (end < 0) break;
        const event = tail.slice(0, end);
        tail = tail.slice(end + 2);
        if (event === "data: [DONE]") done = true;
        else if (event.startsWith('data: {"error"')) error = event;
        // The first event names the role and the last one the reason for the end: only the others carry a token.
        else if (/"content":"[^"]/.test(event)) {
          if (outputTokens === 0) ttftMs = clock.now() - started;
          outputTokens++;
        }
      }
    }
    return done && error === "" ? outcome("completed") : outcome("interrupted", error || "ended without [DONE]");
  } catch (error) {
    return outcome(Number.isNaN(ttftMs) ? "failed" : "interrupted", reasonOf(error));
  }
}
