import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { Agent, fetch } from "undici";
import type { Driver, Outcome, PlacedCall, Raised } from "./calls.ts";

// biome-ignore lint/suspicious/noExplicitAny: methods are found by their names
type Loose = any;

const CLIENTS = { openai: OpenAI, anthropic: Anthropic };
/** The helper that collects a stream has a method of its own in each API. */
const FINAL = ["finalChatCompletion", "finalMessage", "finalResponse"];

/** The clients of npm, in this process. */
export const NODE_DRIVER: Driver = {
  language: "TypeScript",
  perform: (call) => perform(call, {}),
  close: () => {},
};

/**
 * The clients of npm with the `fetch` of undici, which offers HTTP/2. All calls share one connection, as far as HTTP/2 lets them.
 * @param ca the only authority that the clients trust, PEM
 */
export function http2Driver(ca: string): Driver {
  const dispatcher = new Agent({ allowH2: true, connections: 1, connect: { ca } });
  const transport = { fetch, fetchOptions: { dispatcher } };
  return {
    language: "TypeScript",
    perform: (call) => perform(call, transport),
    close: () => void dispatcher.destroy(),
  };
}

async function perform(call: PlacedCall, transport: Loose): Promise<Outcome> {
  const client = new CLIENTS[call.library]({
    ...transport,
    baseURL: call.baseUrl,
    apiKey: call.apiKey,
    maxRetries: call.retries ?? 0,
    timeout: call.timeoutMs,
  });
  const names = call.method.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()).split(".");
  const method = names.pop()!;
  const group: Loose = names.reduce((inner: Loose, name) => inner[name], client);
  const given = [...(call.args ?? []), ...(call.params === undefined ? [] : [call.params])];
  const options = { headers: call.headers };
  try {
    if (call.helper === true) {
      const stream = group.stream(...given, options);
      return { value: plain(await stream[FINAL.find((name) => name in stream)!]()) };
    }
    // A method without parameters takes the options first.
    const result: Loose = await group[method](...given, options);
    if (call.params?.["stream"] === true) return await streamed(call, result);
    if (call.list === true) {
      const items: unknown[] = [];
      for await (const item of result) items.push(plain(item));
      return { value: items };
    }
    return { value: plain(result), requestId: result._request_id };
  } catch (error) {
    return { error: raised(error) };
  }
}

async function streamed(call: PlacedCall, stream: AsyncIterable<unknown>): Promise<Outcome> {
  const events: unknown[] = [];
  try {
    for await (const event of stream) {
      events.push(event);
      if (events.length === call.stopAfter) break;
    }
  } catch (error) {
    return { events, error: raised(error) };
  }
  return { events };
}

function raised(thrown: unknown): Raised {
  const error = thrown as Loose;
  return {
    ...{ name: error.constructor.name, status: error.status, code: error.code, type: error.type, param: error.param },
    ...{ message: error.message, requestId: error.requestID, body: error.error },
    headers: error.headers === undefined ? null : Object.fromEntries(error.headers),
  };
}

function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}
