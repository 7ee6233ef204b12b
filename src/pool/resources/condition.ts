import { codePoints } from "./scalars.ts";
import { formatTime } from "./time.ts";

/** Types of the conditions of our kinds (api-resources 1.11). */
export const CONDITION = {
  accepted: "Accepted",
  resolvedRefs: "ResolvedRefs",
  exported: "Exported",
  /** Legacy type of InferenceModel; mirrors `Accepted`. */
  ready: "Ready",
} as const;

/** Reasons of conditions (api-resources 1.11). Controllers may use others, and should prefer these. */
export const REASON = {
  /** Accepted is True: the parent took the pool, the model is in force. */
  accepted: "Accepted",
  /** Accepted is Unknown: nobody has looked yet. */
  pending: "Pending",
  /** Accepted is False: the parent can't use pools. v1; `notSupportedByGateway` is its name in v1alpha2. */
  notSupportedByParent: "NotSupportedByParent",
  notSupportedByGateway: "NotSupportedByGateway",
  /** Accepted is False: the routes that refer to the pool were rejected. */
  httpRouteNotAccepted: "HTTPRouteNotAccepted",
  /** Accepted is False: the pool names no Endpoint Picker, and this gateway needs one. */
  endpointPickerRefMissing: "EndpointPickerRefMissing",
  /** Accepted is False: another InferenceModel of the pool owns the model name. */
  modelNameInUse: "ModelNameInUse",
  /** ResolvedRefs is True. */
  resolvedRefs: "ResolvedRefs",
  /** ResolvedRefs is False: the Endpoint Picker is missing, of an unsupported kind or an ExternalName Service. */
  invalidExtensionRef: "InvalidExtensionRef",
  /** Exported is True. */
  exported: "Exported",
  /** Exported is False on purpose. */
  notRequested: "NotRequested",
  /** Exported is False: the message says what isn't supported. */
  notSupported: "NotSupported",
} as const;

/** A condition as it stands in a status (api-resources 1.2). */
export interface Condition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
  /** RFC 3339. */
  readonly lastTransitionTime: string;
  /** The `metadata.generation` that was looked at. */
  readonly observedGeneration?: number | undefined;
}

/** What a controller has to say; when it became so is found out by comparing. */
export type Finding = Omit<Condition, "lastTransitionTime"> & { readonly observedGeneration: number };

/** What the API writes where no controller has been yet. @param type of the condition: it differs between kinds */
export function pendingCondition(type: string): Condition {
  return {
    type,
    status: "Unknown",
    reason: REASON.pending,
    message: "Waiting for controller",
    lastTransitionTime: "1970-01-01T00:00:00Z",
  };
}

/** Most conditions in one list. */
export const MAX_CONDITIONS = 8;
/** Longest message, in code points. */
export const MAX_MESSAGE = 32_768;

/**
 * Puts a finding into a list of conditions. Conditions of other types stay as they are; `lastTransitionTime` moves only
 * when `status` does.
 * @param now wall-clock milliseconds
 * @returns the same list when it already says so, a new one otherwise; undefined when the type is new and the list holds
 * 8 conditions already
 */
export function setCondition(
  conditions: readonly Condition[],
  finding: Finding,
  now: number,
): readonly Condition[] | undefined {
  const message = cut(finding.message);
  const at = conditions.findIndex(({ type }) => type === finding.type);
  const before = conditions[at];
  if (before === undefined) {
    if (conditions.length >= MAX_CONDITIONS) return undefined;
    return [...conditions, { ...finding, message, lastTransitionTime: formatTime(now) }];
  }
  const same =
    before.status === finding.status &&
    before.reason === finding.reason &&
    before.message === message &&
    before.observedGeneration === finding.observedGeneration;
  if (same) return conditions;
  const lastTransitionTime = before.status === finding.status ? before.lastTransitionTime : formatTime(now);
  return conditions.with(at, { ...finding, message, lastTransitionTime });
}

/** A message may quote what others wrote, and the API refuses a status with one that is too long. */
function cut(message: string): string {
  if (message.length <= MAX_MESSAGE || codePoints(message) <= MAX_MESSAGE) return message;
  return `${message.slice(0, MAX_MESSAGE - 3).toWellFormed()}...`;
}
