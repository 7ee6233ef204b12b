import { readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { isObject } from "../../base/document/json-object.ts";
import type { Json } from "./chat-messages.ts";
import type { TemplateSource } from "./chat-template.ts";

/** The largest `tokenizer.json` in bytes; the largest published ones have about 35 MB. */
const MAX_FILE_BYTES = 128 * 2 ** 20;

/** What the folder of a model says about its tokens. */
export interface ModelFiles {
  readonly tokenizer: Json;
  /** `tokenizer_config.json`; empty where there is none. */
  readonly config: Json;
  /** `config.json` of the model; empty where there is none. */
  readonly model: Json;
  readonly chatTemplate: TemplateSource | undefined;
}

/**
 * Reads the files of a model. Throws when `tokenizer.json` is not there, and for a file that is too long or no JSON object.
 * @param path of the `tokenizer.json`; the other files lie beside it
 * @param template path of a chat template in place of the model's own one; undefined = none
 */
export function readModelFiles(path: string, template: string | undefined): ModelFiles {
  const folder = dirname(path);
  const config = jsonIn(join(folder, "tokenizer_config.json")) ?? {};
  const tokenizer = jsonIn(path);
  if (tokenizer === undefined) throw new Error(`${path} does not exist`);
  return {
    tokenizer,
    config,
    model: jsonIn(join(folder, "config.json")) ?? {},
    chatTemplate:
      template === undefined
        ? (textIn(join(folder, "chat_template.jinja")) ??
          templateOf(jsonIn(join(folder, "chat_template.json"))) ??
          templateOf(config))
        : textOf(template),
  };
}

function textOf(path: string): string {
  const text = textIn(path);
  if (text === undefined) throw new Error(`${path} does not exist`);
  return text;
}

/** Undefined = there is no such file. */
function textIn(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return undefined;
  if (found.size > MAX_FILE_BYTES) throw new Error(`${path} has more than ${MAX_FILE_BYTES} bytes`);
  return readFileSync(path, "utf8");
}

function jsonIn(path: string): Json | undefined {
  const text = textIn(path);
  if (text === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error(`${path} is not JSON`);
  }
  if (!isObject(value)) throw new Error(`${path} is not a JSON object`);
  return value;
}

function templateOf(config: Json | undefined): TemplateSource | undefined {
  const template = config?.["chat_template"];
  if (typeof template === "string") return template;
  if (!Array.isArray(template)) return undefined;
  return template.filter(
    (one) => isObject(one) && typeof one["name"] === "string" && typeof one["template"] === "string",
  );
}
