import { z } from "zod";
import { MAX_MODEL_NAME, MAX_MODELS, statedModels, wrongModels } from "../endpoints/served-models.ts";

/** Schemas of the keys that several kinds of discovery have. */

export const portField = z.int().min(1).max(65535);

export const labelsField = z.record(z.string(), z.string()).default({}).describe("Labels of the endpoints.");

export const modelsField = z
  .array(z.string().max(MAX_MODEL_NAME))
  .min(1, "must be a list of one or more model names; leave it out to ask the server")
  .max(MAX_MODELS)
  .superRefine((names, context) => {
    const wrong = wrongModels(names);
    if (wrong !== undefined) context.addIssue({ code: "custom", path: [...wrong.at], message: wrong.problem });
  })
  .transform(statedModels)
  .optional()
  .describe('The models of the endpoints; ["*"] = every name. Absent = the gateway asks the servers.');

/**
 * Adds a violation where a mapping does not have exactly one of some keys.
 * @param keys at least two
 */
export function exactlyOne<K extends string>(keys: readonly K[]) {
  return (value: Readonly<Partial<Record<K, unknown>>>, context: z.core.$RefinementCtx): void => {
    const given = keys.filter((key) => value[key] !== undefined);
    if (given.length === 1) return;
    const all = keys.map((key) => `\`${key}\``);
    const message = `give exactly one of ${all.slice(0, -1).join(", ")} and ${all.at(-1)}`;
    const path = given[1] === undefined ? [] : [given[1]];
    context.addIssue({
      code: "custom",
      path,
      message: given.length === 0 ? message : `${message}, not ${given.length}`,
    });
  };
}
