import { Rejection } from "../../base/inference/outcomes.ts";
import type { ByteRange, ParsedBody } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { JsonMembers } from "./json/members.ts";
import { JsonScanner } from "./json/scanner.ts";
import {
  answersFor,
  COMMON_MEMBERS,
  countMember,
  inside,
  notJson,
  parsedJson,
  rangesOf,
  readPrompts,
} from "./json-body.ts";

/** The members that say how many answers a server generates for one prompt. */
const ANSWERS = ["n", "best_of"] as const;
const chatMembers = new JsonMembers([
  ...COMMON_MEMBERS,
  ...ANSWERS,
  "messages",
  "tools",
  "max_completion_tokens",
  "max_tokens",
]);

/** The answers to one prompt. */
function answersIn<Name extends string>(
  members: JsonMembers<Name | (typeof ANSWERS)[number]>,
  body: Uint8Array,
): number {
  return answersFor(countMember(members, "n", body), countMember(members, "best_of", body));
}

/**
 * OpenAI chat completions, and vLLM's rendering of them (epp-protocol 10.2, 10.3). The prefix consists of the received bytes of
 * `tools`, then `messages`: chat templates put the tools before the conversation. The turns of one conversation are from one
 * client, which writes earlier turns the same way each time.
 */
export const chatCompletions: BodyParser = {
  name: "chat-completions",
  suffixes: ["/chat/completions", "/chat/completions/render"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = chatMembers.read(scanner);
    if (wrong !== undefined) return notJson(wrong);
    const messages = chatMembers.kind("messages") === "array" ? chatMembers.range("messages") : undefined;
    if (messages === undefined || scanner.firstElement(messages.start) < 0) {
      return new Rejection("bad_request", "invalid chat completions request: must have valid messages field");
    }
    const prompt: ByteRange[] = chatMembers.has("tools") ? [chatMembers.range("tools"), messages] : [messages];
    const cap = countMember(chatMembers, "max_completion_tokens", body);
    return parsedJson(
      chatMembers,
      scanner,
      [prompt],
      Number.isNaN(cap) ? countMember(chatMembers, "max_tokens", body) : cap,
      { answers: answersIn(chatMembers, body) },
    );
  },
};

const completionMembers = new JsonMembers([...COMMON_MEMBERS, ...ANSWERS, "prompt", "max_tokens"]);

/** OpenAI completions, and vLLM's rendering of them (epp-protocol 10.2, 10.3). */
export const completions: BodyParser = {
  name: "completions",
  suffixes: ["/completions", "/completions/render"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = completionMembers.read(scanner);
    if (wrong !== undefined) return notJson(wrong);
    if (!completionMembers.has("prompt")) {
      return new Rejection("bad_request", "invalid completions request: must have prompt field");
    }
    const prompts = readPrompts(scanner, completionMembers.kind("prompt"), completionMembers.range("prompt"));
    if (prompts === undefined) {
      const detail = "invalid completions request: prompt must be a string, a list of strings or token ids";
      return new Rejection("bad_request", detail);
    }
    return parsedJson(completionMembers, scanner, prompts, countMember(completionMembers, "max_tokens", body), {
      answers: answersIn(completionMembers, body) * Math.max(1, prompts.length),
    });
  },
};

const responseMembers = new JsonMembers([...COMMON_MEMBERS, "input", "instructions", "tools", "max_output_tokens"]);

/** OpenAI responses (epp-protocol 10.2, 10.3). The prefix consists of `instructions`, `tools`, `input` (epp-protocol 10.5). */
export const responses: BodyParser = {
  name: "responses",
  suffixes: ["/responses"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = responseMembers.read(scanner);
    if (wrong !== undefined) return notJson(wrong);
    if (!responseMembers.has("input"))
      return new Rejection("bad_request", "invalid responses request: must have input field");
    const prompt = rangesOf(responseMembers, "instructions", "tools", "input");
    return parsedJson(responseMembers, scanner, [prompt], countMember(responseMembers, "max_output_tokens", body));
  },
};

const conversationMembers = new JsonMembers([...COMMON_MEMBERS, "items"]);

/** OpenAI conversations (epp-protocol 10.2, 10.3): `items` is a list that is not empty. */
export const conversations: BodyParser = {
  name: "conversations",
  suffixes: ["/conversations"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = conversationMembers.read(scanner);
    if (wrong !== undefined) return notJson(wrong);
    const items = conversationMembers.kind("items") === "array" ? conversationMembers.range("items") : undefined;
    if (items === undefined || scanner.firstElement(items.start) < 0) {
      return new Rejection("bad_request", "invalid conversations request: must have items field");
    }
    return parsedJson(conversationMembers, scanner, [[items]], Number.NaN);
  },
};

const embeddingMembers = new JsonMembers([...COMMON_MEMBERS, "input"]);

/**
 * Embeddings (epp-protocol 10.2, 10.3). Each string or list of token ids of `input` is a prompt. Any other value that servers
 * accept, such as a list of images, is one prompt with its bytes as received.
 */
export const embeddings: BodyParser = {
  name: "embeddings",
  suffixes: ["/embeddings"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = embeddingMembers.read(scanner);
    if (wrong !== undefined) return notJson(wrong);
    if (!embeddingMembers.has("input")) {
      return new Rejection("bad_request", "invalid embeddings request: must have input field");
    }
    const range = embeddingMembers.range("input");
    return parsedJson(
      embeddingMembers,
      scanner,
      readPrompts(scanner, embeddingMembers.kind("input"), range) ?? [[range]],
      Number.NaN,
    );
  },
};

const imageMembers = new JsonMembers([...COMMON_MEMBERS, "prompt"]);

/** OpenAI image generation (epp-protocol 10.2, 10.3): `prompt` is a text that is not empty. */
export const images: BodyParser = {
  name: "images",
  suffixes: ["/images/generations"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = imageMembers.read(scanner);
    if (wrong !== undefined) return notJson(wrong);
    const { start, end } = imageMembers.range("prompt");
    if (imageMembers.kind("prompt") !== "string" || end - start <= 2) {
      return new Rejection("bad_request", "invalid images generations request: must have prompt field");
    }
    return parsedJson(imageMembers, scanner, [[inside(start, end)]], Number.NaN);
  },
};
