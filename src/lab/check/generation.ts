import { at, checkUsage, excerpt, parseJson, refusal } from "./answers.ts";
import type { HttpProbe, NoAnswer, ProbeAnswer } from "./http-probe.ts";
import { Finding, skipped, type Verdict } from "./verdict.ts";

/** The most bytes of an answer that are read: four tokens need a thousandth of it. */
export const MAX_ANSWER_BYTES = 1024 * 1024;

/** The two generation APIs of the protocol. */
export const APIS = {
  completions: {
    path: "/v1/completions",
    object: "text_completion",
    chunk: "text_completion",
    text: ["text"],
    delta: ["text"],
    usage: "completionsUsage",
    stream: "completionsStream",
    streamUsage: "completionsStreamUsage",
  },
  chat: {
    path: "/v1/chat/completions",
    object: "chat.completion",
    chunk: "chat.completion.chunk",
    text: ["message", "content"],
    delta: ["delta"],
    usage: "chatUsage",
    stream: "chatStream",
    streamUsage: "chatStreamUsage",
  },
} as const;

export type Api = keyof typeof APIS;

/** A request that asks for four tokens. */
export function ask(
  probe: HttpProbe,
  api: Api,
  model: string,
  prompt: string,
  stream = false,
): Promise<ProbeAnswer | NoAnswer> {
  const input = api === "chat" ? { messages: [{ role: "user", content: prompt }] } : { prompt };
  const streaming = stream ? { stream: true, stream_options: { include_usage: true } } : {};
  const body = { model, ...input, max_tokens: 4, temperature: 0, ...streaming };
  return probe.post(APIS[api].path, body, MAX_ANSWER_BYTES);
}

/** A complete answer: the obligation itself, then its token usage. */
export function checkWhole(api: Api, model: string, answer: ProbeAnswer | NoAnswer): Verdict[] {
  const { path, object, text, usage } = APIS[api];
  const refused = refusal(api, `POST ${path}`, answer);
  if (refused !== undefined || answer.kind === "none") return [refused!, skipped(usage, "there is no answer")];
  const finding = new Finding(api);
  const json = parseJson(answer.body);
  if (typeof json !== "object" || json === null) {
    finding.broken(
      `POST ${path} answered 200 with something other than a JSON object: ${excerpt(answer)}`,
      "answer with one JSON object",
    );
    return [finding.verdict(""), skipped(usage, "there is no answer")];
  }
  if (answer.mediaType !== "application/json")
    finding.doubtful(`its content type is ${JSON.stringify(answer.mediaType)}`, "declare application/json");
  const content = at(json, "choices", 0, ...text);
  // A model that thinks first may use up its four tokens. Then the content is null.
  if (typeof content !== "string" && !(api === "chat" && content === null))
    finding.broken(`there is no string at choices[0].${text.join(".")}`, "answer in the shape of the OpenAI API");
  checkNames(finding, json, object, model);
  return [
    finding.verdict(`POST ${path} answered 200 for the model ${model}`),
    checkUsage(usage, at(json, "usage"), "the answer", "send usage with every answer"),
  ];
}

/** An answer as server-sent events: the obligation itself, then its token usage. */
export function checkStream(api: Api, model: string, answer: ProbeAnswer | NoAnswer): Verdict[] {
  const { path, chunk, delta, stream, streamUsage } = APIS[api];
  const refused = refusal(stream, `POST ${path} with stream`, answer);
  if (refused !== undefined || answer.kind === "none") return [refused!, skipped(streamUsage, "there is no stream")];
  const finding = new Finding(stream);
  if (answer.cut)
    finding.broken(
      `the stream has more than ${MAX_ANSWER_BYTES} bytes, but the request asked for four tokens`,
      "end the stream once max_tokens are sent",
    );
  if (answer.mediaType !== "text/event-stream") {
    finding.broken(
      `the content type of the stream is ${JSON.stringify(answer.mediaType)}: ${excerpt(answer)}`,
      "answer a request with stream=true as text/event-stream",
    );
    return [finding.verdict(""), skipped(streamUsage, "there is no stream")];
  }
  const { events, done, afterDone } = readEvents(answer.body);
  const chunks = events.map(parseJson);
  const unreadable = chunks.findIndex((json) => typeof json !== "object" || json === null);
  if (unreadable >= 0 && !answer.cut)
    finding.broken(`event ${unreadable + 1} is not a JSON object`, "send one JSON object per data event");
  const failed = chunks.find((json) => at(json, "error") !== undefined);
  if (failed !== undefined)
    finding.broken(
      `an event reports an error: ${JSON.stringify(at(failed, "error")).slice(0, 160)}`,
      "read the log of the server",
    );
  const said = chunks.filter((json) => at(json, "choices", 0, ...delta) !== undefined);
  if (said.length === 0)
    finding.broken(`no event has choices[0].${delta.join(".")}`, "send tokens in the shape of the OpenAI API");
  else checkNames(finding, said[0], chunk, model);
  if (!done && !answer.cut)
    finding.broken("the stream does not end with data: [DONE]", "send data: [DONE] as the last event");
  if (afterDone) finding.broken("events follow data: [DONE]", "send data: [DONE] as the last event");
  const usage = chunks.map((json) => at(json, "usage")).findLast((value) => value !== undefined && value !== null);
  return [
    finding.verdict(`POST ${path} streamed ${events.length} events and [DONE]`),
    checkUsage(
      streamUsage,
      usage,
      "the stream",
      "if a request has stream_options.include_usage, send usage in a last event",
    ),
  ];
}

function checkNames(finding: Finding, json: unknown, object: string, model: string): void {
  const name = at(json, "model");
  if (name !== model)
    finding.doubtful(
      `the model in the answer is ${JSON.stringify(name)?.slice(0, 100) ?? "missing"}`,
      "answer with the model name of the request",
    );
  const kind = at(json, "object");
  if (kind !== object)
    finding.doubtful(`object is ${JSON.stringify(kind)?.slice(0, 100) ?? "missing"}`, `set object to "${object}"`);
}

/** The contents of a finished event stream. */
interface EventStream {
  /** The data of each event, lines joined, without `[DONE]`; at most the first `MAX_EVENTS`. */
  readonly events: readonly string[];
  /** The stream contained `data: [DONE]`. */
  readonly done: boolean;
  /** An event followed `[DONE]`. */
  readonly afterDone: boolean;
}

/** Far more than the events of four tokens. */
const MAX_EVENTS = 4096;

/** Reads a complete `text/event-stream` body (WHATWG HTML 9.2); skips comments and fields other than `data`. */
export function readEvents(body: Uint8Array): EventStream {
  const events: string[] = [];
  let done = false;
  let afterDone = false;
  let data: string[] = [];
  const dispatch = (): void => {
    if (data.length === 0) return;
    const text = data.join("\n");
    data = [];
    if (done) afterDone = true;
    else if (text === "[DONE]") done = true;
    else if (events.length < MAX_EVENTS) events.push(text);
  };
  for (const line of new TextDecoder().decode(body).split(/\r\n|\n|\r/)) {
    if (line === "") dispatch();
    else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
  }
  // An event without its empty line is incomplete by the standard, but readers of this API accept it.
  dispatch();
  return { events, done, afterDone };
}
