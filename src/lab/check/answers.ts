import { oneLine } from "../../base/inference/errors.ts";
import type { Answer, NoAnswer } from "./http-probe.ts";
import { at, parseJson } from "./json-value.ts";
import type { ObligationName } from "./obligations.ts";
import { Finding, skipped, type Verdict } from "./verdict.ts";

const MAX_EXCERPT = 160;

/** How an answer begins: the message of an OpenAI-shaped error, else the first characters of the body. */
export function excerpt({ body, mediaType }: Answer): string {
  if (body.length === 0) return "an empty body";
  const json = parseJson(body);
  const message = at(json, "error", "message") ?? at(json, "message") ?? at(json, "detail");
  const text = typeof message === "string" ? message : body.toString("utf8", 0, MAX_EXCERPT * 4);
  const flat = oneLine(text).trim();
  const short = flat.length <= MAX_EXCERPT ? flat : `${flat.slice(0, MAX_EXCERPT - 3)}...`;
  return /html/.test(mediaType) ? `a page of HTML: ${short}` : short;
}

/**
 * The verdict on a request that got no answer, or none with status 200; undefined for one that did.
 * @param request how it is shown, `POST /v1/completions`
 */
export function refusal(obligation: ObligationName, request: string, answer: Answer | NoAnswer): Verdict | undefined {
  const finding = new Finding(obligation);
  if (answer.kind === "none") {
    if (answer.reason === "untried") return skipped(obligation, answer.detail, { inconclusive: true });
    finding.broken(`${request}: ${answer.detail}`, NO_ANSWER[answer.reason]);
    return finding.verdict("");
  }
  const { status } = answer;
  if (status === 200) return undefined;
  const seen = `${request} answered ${status}: ${excerpt(answer)}`;
  if (status === 401 || status === 403)
    return skipped(obligation, seen, {
      inconclusive: true,
      remedy: "give the credentials it wants with --header 'Authorization: Bearer ...'",
    });
  finding.broken(seen, remedyFor(status));
  return finding.verdict("");
}

const NO_ANSWER = {
  connect: "see why it no longer accepts connections",
  timeout: "see what it waits for, or give it longer with --timeout",
  broken: "see in its log why it cuts the answer short or does not speak HTTP",
} as const;

function remedyFor(status: number): string {
  if (status === 404 || status === 405) return "serve this path, or name a model it serves with --model";
  if (status === 429 || status === 503) return "try again once it is idle and has loaded its model";
  if (status < 400) return "answer 200 at this path itself";
  if (status < 500) return "accept the request as the OpenAI API defines it";
  return "see its log";
}
