import { Rejection } from "../../base/inference/outcomes.ts";
import type { ParsedBody } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { JsonMembers } from "./json/members.ts";
import { isTokenList } from "./json/ranges.ts";
import { JsonScanner } from "./json/scanner.ts";
import { answersFor, COMMON_MEMBERS, countMember, notJson, parsedJson, textMember } from "./json-body.ts";

const vllm = new JsonMembers([...COMMON_MEMBERS, "token_ids", "features", "sampling_params"]);
const sglang = new JsonMembers(["stream", "input_ids", "extra_key", "sampling_params"]);
const vllmSampling = new JsonMembers(["max_tokens", "n"]);
const sglangSampling = new JsonMembers(["max_new_tokens", "n"]);
const features = new JsonMembers(["mm_hashes"]);

/**
 * vLLM's token API (epp-protocol 10.2, 10.3). The hashes of images and sounds are part of the prompt, after the tokens. So
 * conversations that differ by one more picture still share their beginnings.
 */
export const vllmGenerate: BodyParser = {
  name: "vllm-generate",
  suffixes: ["/inference/v1/generate"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = vllm.read(scanner);
    if (wrong !== undefined) return notJson(wrong);
    const kind = vllm.kind("token_ids");
    const tokens = vllm.range("token_ids");
    if (!vllm.has("token_ids") || (kind === "array" && scanner.firstElement(tokens.start) < 0)) {
      return invalid("must have non-empty token_ids field");
    }
    if (kind !== "array" || !isTokenList(body, tokens.start, tokens.end)) {
      return invalid("token_ids must be a list of token ids");
    }
    const prompt = [tokens];
    if (vllm.kind("features") === "object") {
      const { start } = enter(vllm, "features", features, body);
      if (features.has("mm_hashes")) {
        const hashes = features.range("mm_hashes");
        prompt.push({ start: start + hashes.start, end: start + hashes.end });
      }
    }
    return parsedJson(vllm, scanner, [prompt], nestedCount(vllm, vllmSampling, "max_tokens", body), {
      answers: answersFor(nestedCount(vllm, vllmSampling, "n", body)),
    });
  },
};

/** SGLang's own API with token ids (epp-protocol 10.2, 10.3): the request names no model. */
export const sglangGenerate: BodyParser = {
  name: "sglang-generate",
  suffixes: [],
  paths: ["/generate"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = sglang.read(scanner);
    if (wrong !== undefined) return notJson(wrong);
    if (!sglang.has("input_ids")) return invalid("input_ids must be provided");
    if (sglang.has("extra_key") && sglang.kind("extra_key") !== "string") {
      return new Rejection("bad_request", "unsupported generate request: extra_key must be a string");
    }
    const tokens = sglang.range("input_ids");
    if (sglang.kind("input_ids") !== "array" || !isTokenList(body, tokens.start, tokens.end)) {
      return invalid("input_ids must be an array of uint32 integers");
    }
    if (scanner.firstElement(tokens.start) < 0) return invalid("input_ids cannot be empty");
    return {
      model: "",
      modelRange: undefined,
      modelInsertAt: -1,
      answerFormat: "sglang",
      streaming: sglang.kind("stream") === "true",
      cacheSalt: textMember(sglang, "extra_key", body),
      prompts: [[tokens]],
      maxTokens: nestedCount(sglang, sglangSampling, "max_new_tokens", body),
      answers: answersFor(nestedCount(sglang, sglangSampling, "n", body)),
    };
  },
};

function invalid(what: string): Rejection {
  return new Rejection("bad_request", `invalid generate request: ${what}`);
}

/** Fills `inner` from the object in the member `name`; returns the beginning of the object. */
function enter<Name extends string, Inner extends string>(
  members: JsonMembers<Name>,
  name: Name,
  inner: JsonMembers<Inner>,
  body: Uint8Array,
): { readonly start: number; readonly nested: Uint8Array } {
  const { start, end } = members.range(name);
  const nested = body.subarray(start, end);
  inner.read(new JsonScanner(nested));
  return { start, nested };
}

function nestedCount<Name extends string, Inner extends string>(
  members: JsonMembers<Name | "sampling_params">,
  inner: JsonMembers<Inner>,
  name: Inner,
  body: Uint8Array,
): number {
  if (members.kind("sampling_params") !== "object") return Number.NaN;
  return countMember(inner, name, enter(members, "sampling_params", inner, body).nested);
}
