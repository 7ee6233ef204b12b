import { Template } from "@huggingface/jinja";
import { isObject } from "../../base/document/json-object.ts";
import { messageOf, oneLine } from "../../base/inference/errors.ts";
import {
  type ContentFormat,
  type Json,
  type TemplateMessage,
  templateMessages,
  templateTools,
} from "./chat-messages.ts";
import { contentFormatOf } from "./content-format.ts";
import { RequestUnusable } from "./unusable.ts";

/** The template that a model brings: one text, or several with names. */
export type TemplateSource = string | readonly { readonly name: string; readonly template: string }[];

export interface ChatTemplateOptions {
  /** How the template reads contents; `auto` = by its text, as vLLM does. */
  readonly format: ContentFormat | "auto";
  /** Variables for each rendering, below those of the request; vLLM's `--default-chat-template-kwargs`. */
  readonly kwargs: Json;
}

/** Variables of a template that a request must not set. */
const RESERVED: readonly string[] = ["messages", "tools", "chat_template", "tokenize"];

/** The chat templates of one model. Renders requests to the text that engines tokenize. */
export class ChatTemplate {
  readonly #source: TemplateSource;
  readonly #specials: Readonly<Record<string, string>>;
  readonly #options: ChatTemplateOptions;
  readonly #compiled = new Map<string, { readonly template: Template; readonly format: ContentFormat }>();

  /** @param specials the special tokens by their names, such as `bos_token`: templates write them */
  constructor(source: TemplateSource, specials: Readonly<Record<string, string>>, options: ChatTemplateOptions) {
    this.#source = source;
    this.#specials = specials;
    this.#options = options;
  }

  /** @throws RequestUnusable when the template refuses the chat, or the request brings what vLLM refuses */
  render(request: Json): string {
    if (typeof request["chat_template"] === "string")
      throw new RequestUnusable("the request has its own chat template, which engines refuse by default");
    const tools = templateTools(request["tools"]);
    const { template, format } = this.#templateFor(tools !== undefined);
    const messages = templateMessages(request["messages"], format);
    const continues = request["continue_final_message"] === true;
    const variables: Record<string, unknown> = {
      ...this.#specials,
      ...this.#options.kwargs,
      ...given(request["chat_template_kwargs"]),
      add_generation_prompt: request["add_generation_prompt"] ?? !continues,
      continue_final_message: continues,
      messages,
      tools: tools ?? null,
      documents: request["documents"] ?? null,
    };
    const effort = request["reasoning_effort"];
    if (effort !== undefined && effort !== null) variables["reasoning_effort"] = effort;
    const rendered = run(template, variables);
    return continues ? upToFinalMessage(rendered, messages) : rendered;
  }

  #templateFor(withTools: boolean): { readonly template: Template; readonly format: ContentFormat } {
    const text = this.#text(withTools);
    let compiled = this.#compiled.get(text);
    if (compiled === undefined) {
      const template = new Template(text);
      const { format } = this.#options;
      compiled = { template, format: format === "auto" ? contentFormatOf(template.parsed) : format };
      this.#compiled.set(text, compiled);
    }
    return compiled;
  }

  #text(withTools: boolean): string {
    if (typeof this.#source === "string") return this.#source;
    const named = (wanted: string) =>
      (this.#source as Exclude<TemplateSource, string>).find(({ name }) => name === wanted)?.template;
    const text = (withTools ? named("tool_use") : undefined) ?? named("default");
    if (text === undefined) throw new RequestUnusable("the model has several chat templates, and none is the default");
    return text;
  }
}

function given(kwargs: unknown): Json {
  if (kwargs === undefined || kwargs === null) return {};
  if (!isObject(kwargs)) throw new RequestUnusable("chat_template_kwargs is not an object");
  return Object.fromEntries(Object.entries(kwargs).filter(([name]) => !RESERVED.includes(name)));
}

function run(template: Template, variables: Readonly<Record<string, unknown>>): string {
  try {
    return template.render(variables);
  } catch (error) {
    // A template may quote the messages, so its sentence stays here unless it is one that templates usually raise.
    const said = oneLine(messageOf(error));
    throw new RequestUnusable(`the chat template refuses the messages${KNOWN.test(said) ? `: ${said}` : ""}`);
  }
}

const KNOWN = /^Conversation roles must alternate[ a-z/.]*$/;

/**
 * Returns the rendering up to the end of the last message's text, which the model is to continue (the rule of Transformers).
 */
function upToFinalMessage(rendered: string, messages: readonly TemplateMessage[]): string {
  let { content } = messages.at(-1) ?? {};
  if (Array.isArray(content)) content = (content.at(-1) as Json | undefined)?.["text"];
  if (typeof content !== "string") throw new RequestUnusable("there is no final message with a text to continue");
  const text = content.trim();
  const at = rendered.lastIndexOf(text);
  if (at < 0) throw new RequestUnusable("the chat template changes the final message, so it cannot be continued");
  const whole = content.trimStart();
  return rendered.slice(0, at + (rendered.startsWith(whole, at) ? whole : text).length);
}
