import type { Clock } from "../../base/clock/clock.ts";
import type { RequestHook } from "../../base/plugin/kinds.ts";
import type { InferenceModel, ObjectMeta } from "../resources/objects.ts";
import type { ResourceStore } from "../resources/resource-store.ts";

/** Milliseconds between two reports about the same target of the same InferenceModel. */
const REPORT_EVERY = 60_000;
/** Targets told apart at a time; while all of them were reported lately, further ones wait. */
const MAX_TARGETS = 1000;

/** Reason of the event that a report becomes. */
export const TARGET_MODEL_NOT_FOUND = "TargetModelNotFound";

export interface ModelNotFoundOptions {
  /** Where InferenceModels are looked up. */
  readonly resources: Pick<ResourceStore, "model">;
  /** Tells people about an InferenceModel, such as by an event on it. */
  readonly report: (model: ObjectMeta, text: string) => void;
  readonly clock: Clock;
}

/**
 * Reports an InferenceModel whose target no model server knows: a server answered 404 to a request that was sent on under
 * that name (api-resources 2.4). One report a minute for each target, of at most 1,000 targets; any other answer costs a
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
      report(model.meta, `${server} answered 404 to a request for target model ${target}: it may not have loaded it`);
    },
  };
}

/** Whether the name comes from this object: what a rewrite rule or a header chose is none of its doing. */
function hasTarget({ modelName, targets }: InferenceModel, name: string): boolean {
  return targets.length === 0 ? name === modelName : targets.some((target) => target.name === name);
}
