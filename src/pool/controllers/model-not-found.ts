import type { Clock } from "../../base/clock/clock.ts";
import type { RequestHook } from "../../base/plugin/kinds.ts";
import type { InferenceModel, ObjectMeta } from "../resources/objects.ts";
import type { ResourceStore } from "../resources/resource-store.ts";

/** Milliseconds between two reports about the same target of the same InferenceModel. */
const REPORT_EVERY = 60_000;
/** Most targets that are remembered. While all of them were reported within the interval, further ones wait. */
const MAX_TARGETS = 1000;

/** Reason of the event that a report becomes. */
export const TARGET_MODEL_NOT_FOUND = "TargetModelNotFound";

export interface ModelNotFoundOptions {
  /** The source of InferenceModels. */
  readonly resources: Pick<ResourceStore, "model">;
  /** Reports to people about an InferenceModel, such as by an event on it. */
  readonly report: (model: ObjectMeta, text: string) => void;
  readonly clock: Clock;
}

/**
 * Reports an InferenceModel whose target no model server knows: a server answered 404 to a request that was forwarded under
 * that name (api-resources 2.4). Each target gets one report a minute, at most 1,000 targets. Any other answer costs one
 * comparison.
 */
export function modelNotFound({ resources, report, clock }: ModelNotFoundOptions): RequestHook {
  /** When a target was reported, oldest first. */
  const reported = new Map<string, number>();

  function isDue(target: string): boolean {
    const now = clock.now();
    const before = reported.get(target);
    if (before !== undefined && now - before < REPORT_EVERY) return false;
    reported.delete(target);
    if (reported.size >= MAX_TARGETS) {
      const [oldest, at] = reported.entries().next().value!;
      if (now - at < REPORT_EVERY) return false;
      reported.delete(oldest);
    }
    reported.set(target, now);
    return true;
  }

  return {
    responseReceived({ status, request, endpoint }) {
      if (status !== 404 || request === undefined) return;
      const model = resources.model(request.model)?.model;
      if (model === undefined || !hasTarget(model, request.targetModel)) return;
      const { uid, namespace, name } = model.meta;
      if (!isDue(JSON.stringify([uid, namespace, name, request.targetModel]))) return;
      const server = endpoint === undefined ? "a model server" : `model server ${endpoint.id} (${endpoint.hostPort})`;
      const target = JSON.stringify(request.targetModel);
      report(
        model.meta,
        `${server} answered 404 to a request for target model ${target}: the server may not have loaded the model`,
      );
    },
  };
}

/** Whether the name comes from this object. The object has no part in a name that a rewrite rule or a header chose. */
function hasTarget({ modelName, targets }: InferenceModel, name: string): boolean {
  return targets.length === 0 ? name === modelName : targets.some((target) => target.name === name);
}
