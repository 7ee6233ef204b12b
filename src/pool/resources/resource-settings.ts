import { didYouMean } from "../../base/document/nearest.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { GROUP } from "./objects.ts";
import type { PoolIdentity } from "./pool-choice.ts";
import { MODEL_MATCHING, type ResolverOptions, STANDARD_SHED_AT } from "./resolve.ts";

/** How API objects count. */
export type ResourceCounting = Pick<ResolverOptions, "matching" | "standardShedAt" | "legacyCriticality">;

/** The source of API objects, and how they count. */
export interface ResourceSettings extends ResourceCounting {
  /** Folder of manifests. */
  readonly directory: string;
  /** The pool that this process serves. */
  readonly pool: PoolIdentity;
  /** Of objects that name none. */
  readonly namespace: string;
}

/** The defaults of the flags below, in the form of the command line. */
export const RESOURCE_DEFAULTS = { modelMatching: "auto", standardShedAt: String(STANDARD_SHED_AT) } as const;
/** The largest saturation that a flag accepts: no detector gets near it. */
const MAX_SHED_AT = 1_000_000;

/** The flags about API objects that `sluice epp` and `sluice gateway` share, as given on the command line. */
export interface ResourceFlags {
  /** `--resources`; undefined = not given. */
  readonly directory: string | undefined;
  readonly pool: PoolIdentity;
  /** Default `default`. */
  readonly namespace?: string;
  readonly modelMatching: string;
  readonly standardShedAt: string;
  readonly legacyCriticality: boolean;
}

/** How API objects count according to the flags. @throws SluiceError FLAG_VALUE */
export function resourceCounting(flags: ResourceFlags): ResourceCounting {
  const { pool, modelMatching, legacyCriticality } = flags;
  const matching = MODEL_MATCHING.find((mode) => mode === modelMatching);
  if (matching === undefined)
    throw new SluiceError(
      "FLAG_VALUE",
      `--model-matching is "${modelMatching}"; it takes ${MODEL_MATCHING.join(", ")}${didYouMean(modelMatching, MODEL_MATCHING)}`,
    );
  const groups: readonly string[] = [GROUP.stable, GROUP.experimental];
  if (pool.group !== undefined && !groups.includes(pool.group))
    throw new SluiceError(
      "FLAG_VALUE",
      `--pool-group is "${pool.group}"; it takes ${groups.join(" or ")}${didYouMean(pool.group, groups)}`,
    );
  return { matching, standardShedAt: saturation(flags.standardShedAt), legacyCriticality };
}

/**
 * The settings of the flags; undefined without `--resources`.
 * @throws SluiceError FLAG_VALUE; FLAG_CONFLICT when a flag needs API objects
 */
export function resourceSettings(flags: ResourceFlags): ResourceSettings | undefined {
  const { directory, pool, namespace = "default", legacyCriticality } = flags;
  const counting = resourceCounting(flags);
  const { matching, standardShedAt } = counting;
  if (directory !== undefined) return { directory, pool, namespace, ...counting };
  const idle =
    matching === "enforce"
      ? "--model-matching enforce"
      : standardShedAt !== STANDARD_SHED_AT
        ? "--standard-shed-at"
        : legacyCriticality
          ? "--legacy-criticality"
          : undefined;
  if (idle !== undefined)
    throw new SluiceError(
      "FLAG_CONFLICT",
      `${idle} applies to InferenceModels; give --resources FOLDER with InferenceModels`,
    );
  return undefined;
}

function saturation(text: string): number {
  const value = Number(text);
  if (/^\d+(\.\d+)?$/.test(text) && value >= 1 && value <= MAX_SHED_AT) return value;
  throw new SluiceError(
    "FLAG_VALUE",
    `--standard-shed-at is "${text}"; give a number from 1 to ${MAX_SHED_AT}, for example ${STANDARD_SHED_AT}`,
  );
}
