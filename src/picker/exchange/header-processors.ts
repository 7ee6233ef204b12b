import { SluiceError } from "../../base/inference/errors.ts";
import { firstHeader, HEADER } from "../../base/inference/headers.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { RequestHeaderProcessor } from "../../base/plugin/kinds.ts";
import { refusalIn } from "../scheduling/answers.ts";
import { type PluginCalls, UNTIMED } from "./plugin-calls.ts";

/** A configured request-header processor. */
export interface NamedHeaderProcessor {
  readonly name: string;
  readonly type: string;
  readonly plugin: RequestHeaderProcessor;
}

/**
 * Lets the request-header processors look at a request whose model and objective are known (scheduling 3.2). The fairness
 * ID that one of them sets counts where the client names none; the first that sets one wins.
 * @param onError told of one that throws; the request goes on without it
 */
export function processHeaders(
  processors: readonly NamedHeaderProcessor[],
  request: InferenceRequest,
  onError: (plugin: string, error: unknown) => void,
  calls: PluginCalls = UNTIMED,
): { readonly request: InferenceRequest; readonly refusal: Rejection | undefined } {
  if (processors.length === 0) return { request, refusal: undefined };
  const named = firstHeader(request.headers, HEADER.fairnessId, HEADER.fairnessIdAlias) !== undefined;
  let fairnessId: string | undefined;
  const setFairnessId = (id: string): void => {
    if (typeof id !== "string")
      throw new SluiceError("PLUGIN_ANSWER", `the fairness ID of a request is a text, not a ${typeof id}`);
    if (id !== "") fairnessId ??= id;
  };
  for (const processor of processors) {
    const started = calls.now();
    try {
      const refusal = refusalIn(processor.plugin.process({ request, setFairnessId }));
      if (refusal !== undefined) return { request, refusal };
    } catch (error) {
      onError(processor.name, error);
    } finally {
      calls.called("RequestHeader", processor, calls.now() - started);
    }
  }
  return { request: named || fairnessId === undefined ? request : { ...request, fairnessId }, refusal: undefined };
}
