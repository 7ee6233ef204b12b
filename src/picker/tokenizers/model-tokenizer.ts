import { Tokenizer } from "@huggingface/tokenizers";
import { isObject } from "../../base/document/json-object.ts";
import type { Json } from "./chat-messages.ts";
import { ChatTemplate, type ChatTemplateOptions } from "./chat-template.ts";
import { ChunkCache } from "./chunk-cache.ts";
import { type CutRules, chunksOf, cutRulesOf, type TokenizerParts } from "./chunks.ts";
import type { ModelFiles } from "./model-files.ts";
import { RequestUnusable } from "./unusable.ts";

/** The parts of the library's tokenizer that it keeps to itself; its exact version is pinned. */
interface Inside {
  readonly splitter_unnormalized: { split(text: string): string[] };
  readonly added_tokens_map: ReadonlyMap<
    string,
    { readonly id: number; readonly lstrip: boolean; readonly rstrip: boolean }
  >;
}

/** Turns texts and chats into the tokens of one model. */
export class ModelTokenizer {
  readonly cache: ChunkCache;
  /** Asked between two pieces of a text: whether the request has taken too long. */
  isLate: () => boolean = () => false;
  readonly #tokenizer: Tokenizer;
  readonly #inside: Inside;
  readonly #cuts: CutRules;
  /** Whether the text between two special tokens may be tokenized by itself. */
  readonly #splits: boolean;
  readonly #template: ChatTemplate | undefined;
  /** The tokens before and after each prompt, such as the one that begins a text. */
  readonly #before: readonly number[];
  readonly #after: readonly number[];
  readonly #media: ReadonlySet<number>;

  /** @param cacheBytes the most bytes of remembered pieces. Throws whatever the library throws for files that it cannot use. */
  constructor(files: ModelFiles, cacheBytes: number, options: ChatTemplateOptions) {
    const definition = withAddedTokens(files.tokenizer, files.config);
    this.#tokenizer = new Tokenizer(definition, files.config);
    this.#inside = this.#tokenizer as unknown as Inside;
    this.cache = new ChunkCache(cacheBytes);
    this.#splits = ![...this.#inside.added_tokens_map.values()].some(({ lstrip, rstrip }) => lstrip || rstrip);
    this.#cuts = cutRulesOf(definition as unknown as TokenizerParts, (text) => this.#plain(text));
    const [before, after] = this.#frame(files.config);
    this.#before = before;
    this.#after = after;
    this.#template =
      files.chatTemplate === undefined
        ? undefined
        : new ChatTemplate(files.chatTemplate, specialsOf(files.config), options);
    this.#media = mediaTokens(files, (text) => this.#tokenizer.token_to_id(text));
  }

  /** The tokens that stand for an image, a video or a sound in a prompt. */
  get mediaTokens(): ReadonlySet<number> {
    return this.#media;
  }

  /** @returns the tokens of a chat @throws RequestUnusable */
  chat(request: Json): number[] {
    if (this.#template === undefined) throw new RequestUnusable("the model has no chat template");
    return this.text(this.#template.render(request), request["add_special_tokens"] === true);
  }

  /**
   * @param special whether the tokens that begin and end a text are added
   * @throws RequestUnusable when it takes too long; the pieces so far are remembered
   */
  text(text: string, special: boolean): number[] {
    const tokens: number[] = special ? [...this.#before] : [];
    if (this.#splits)
      for (const section of this.#inside.splitter_unnormalized.split(text)) {
        const added = this.#inside.added_tokens_map.get(section);
        if (added !== undefined) tokens.push(added.id);
        else for (const chunk of chunksOf(section, this.#cuts)) append(tokens, this.#remembered(chunk));
      }
    else append(tokens, this.#remembered(text));
    if (special) tokens.push(...this.#after);
    return tokens;
  }

  #remembered(chunk: string): ArrayLike<number> {
    const found = this.cache.get(chunk);
    if (found !== undefined) return found;
    if (this.isLate()) throw new RequestUnusable("its tokenization takes too long");
    const tokens = Uint32Array.from(this.#plain(chunk));
    this.cache.put(owned(chunk), tokens);
    return tokens;
  }

  #plain(text: string): number[] {
    return this.#tokenizer.encode(text, { add_special_tokens: false }).ids;
  }

  /**
   * Returns the tokens before and after each text. Tokenizers of Llama's kind take them from their configuration, whatever
   * `tokenizer.json` says (Transformers).
   */
  #frame(config: Json): [number[], number[]] {
    if (LLAMA.test(String(config["tokenizer_class"] ?? ""))) {
      const specials = specialsOf(config);
      const token = (kind: "bos" | "eos", usual: boolean): number[] => {
        const id = this.#tokenizer.token_to_id(specials[`${kind}_token`] ?? "");
        return (config[`add_${kind}_token`] ?? usual) === true && id !== undefined ? [id] : [];
      };
      return [token("bos", true), token("eos", false)];
    }
    const bare = this.#plain("a");
    const framed: readonly number[] = this.#tokenizer.encode("a").ids;
    const at = framed.findIndex((_, start) => bare.every((id, i) => framed[start + i] === id));
    if (at < 0) throw new Error("its post-processor changes the tokens of a text");
    return [framed.slice(0, at), framed.slice(at + bare.length)];
  }
}

const LLAMA = /^(?:Code)?(?:Llama|Gemma|Cohere)Tokenizer(?:Fast)?$/;

function append(to: number[], tokens: ArrayLike<number>): void {
  for (let i = 0; i < tokens.length; i++) to.push(tokens[i]!);
}

/** A copy of a text that does not keep the longer text alive of which it may be a slice. */
function owned(text: string): string {
  return text.length < SLICED ? text : Buffer.from(text, "utf16le").toString("utf16le");
}

/** V8 copies shorter slices. */
const SLICED = 13;

/** Transformers adds the tokens that only `tokenizer_config.json` lists. */
function withAddedTokens(tokenizer: Json, config: Json): Record<string, unknown> {
  const listed = isObject(config["added_tokens_decoder"]) ? config["added_tokens_decoder"] : {};
  const added = [...((tokenizer["added_tokens"] as Json[] | undefined) ?? [])];
  const known = new Set(added.map(({ id }) => id));
  for (const [id, token] of Object.entries(listed))
    if (isObject(token) && !known.has(Number(id))) added.push({ ...token, id: Number(id) });
  return { ...tokenizer, added_tokens: added };
}

/** The special tokens of a configuration by their names, as templates use them. */
function specialsOf(config: Json): Readonly<Record<string, string>> {
  const texts = Object.entries(config).flatMap(([name, value]): [string, string][] => {
    if (!name.endsWith("_token")) return [];
    const text = isObject(value) ? value["content"] : value;
    return typeof text === "string" ? [[name, text]] : [];
  });
  return Object.fromEntries(texts);
}

const MEDIA_TEXTS: readonly string[] = ["image_token", "boi_token", "video_token", "audio_token"];
const MEDIA_IDS: readonly string[] = ["image_token_id", "image_token_index", "video_token_id", "audio_token_id"];

function mediaTokens({ config, model }: ModelFiles, idOf: (text: string) => number | undefined): Set<number> {
  const extra = isObject(config["extra_special_tokens"]) ? config["extra_special_tokens"] : {};
  const texts = MEDIA_TEXTS.flatMap((name) => [config[name], extra[name]]).filter((text) => typeof text === "string");
  const ids = [...texts.map(idOf), ...MEDIA_IDS.map((name) => model[name])];
  return new Set(ids.filter((id): id is number => typeof id === "number"));
}
