import { firstHeader, HEADER, type HeaderList } from "../inference/headers.ts";
import type { ObjectiveTable } from "./objectives.ts";

/** The flow of requests that name none. */
const DEFAULT_FAIRNESS_ID = "default-flow";

/** What a request is for, as far as its model name and control headers say. */
export interface ResolvedModel {
  /** What the model server is asked for. */
  readonly targetModel: string;
  /** The objective's name; "" when none was named or nobody defined it, so that clients can't make up names. */
  readonly objective: string;
  /** Below 0 = sheddable. */
  readonly priority: number;
  /** As in `InferenceRequest`. */
  readonly shedAt: number;
  readonly fairnessId: string;
}

/**
 * Looks up target model, objective and fairness ID of a request. The `x-llm-d-...` headers win over the
 * `x-gateway-...` aliases; an empty value counts as absent. Source: epp-protocol 10.6-10.8, E-106, E-107, S-73.
 * @param incomingModel the body's `model`
 */
export function resolveModel(incomingModel: string, headers: HeaderList, objectives: ObjectiveTable): ResolvedModel {
  const named = firstHeader(headers, HEADER.objective, HEADER.objectiveAlias);
  const objective = named !== undefined && objectives.has(named) ? named : "";
  const priority = objectives.lookup(objective);
  return {
    targetModel: incomingModel,
    objective,
    priority,
    shedAt: priority < 0 ? 1 : Number.POSITIVE_INFINITY,
    fairnessId: firstHeader(headers, HEADER.fairnessId, HEADER.fairnessIdAlias) ?? DEFAULT_FAIRNESS_ID,
  };
}
