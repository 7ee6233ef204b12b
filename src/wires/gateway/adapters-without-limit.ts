import { readLimits } from "../../picker/limits/limits-file.ts";
import type { LimitRule, LimitsSettings } from "../../picker/limits/limits-settings.ts";

/** The most names in the sentence. */
const NAMES_TOLD = 3;

/** The rules of a section `limits` of gateway.yaml with absolute paths. @throws SluiceError of the file of limits */
export async function rulesOf({
  file,
  rules,
}: LimitsSettings & { readonly file?: string | undefined }): Promise<readonly LimitRule[]> {
  return file === undefined ? rules : (await readLimits(file)).rules;
}

/**
 * Says which models no rule counts although a rule names the first model of their endpoint: an operator may take an adapter for a
 * part of its base model, and then the adapter has no limit.
 * @param lists the models that each endpoint states, the base model first
 * @returns undefined = there are none
 */
export function adaptersWithoutLimit(
  rules: readonly LimitRule[],
  lists: Iterable<readonly string[]>,
): string | undefined {
  const [named, uncounted] = [new Set<string>(), new Set<string>()];
  const all = [...lists];
  for (const { key, model } of rules) {
    const same = new Set(rules.filter((rule) => rule.key === key).map((rule) => rule.model));
    // Such a rule counts every model.
    if (model === undefined || same.has(undefined) || same.has("*")) continue;
    for (const [first, ...others] of all)
      for (const other of first === model ? others : [])
        if (!same.has(other)) {
          named.add(model);
          uncounted.add(other);
        }
  }
  if (uncounted.size === 0) return undefined;
  return `limits of ${told(named)} do not count requests for ${told(uncounted)}: an adapter counts as a separate model`;
}

function told(names: ReadonlySet<string>): string {
  const shown = [...names].slice(0, NAMES_TOLD).join(", ");
  const more = names.size - NAMES_TOLD;
  return more > 0 ? `${shown} and ${more} more` : shown;
}
