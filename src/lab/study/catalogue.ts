import { PRESETS } from "../simulator/batching/config.ts";
import { WORKLOADS } from "../simulator/workloads/catalogue.ts";
import { wrapped } from "./figure-text.ts";
import { filePolicy, POLICIES } from "./policies.ts";
import type { SimulateCatalogue } from "./simulate-settings.ts";

/** All names that `sluice simulate` knows. */
export const CATALOGUE: SimulateCatalogue = { workloads: WORKLOADS, policies: POLICIES, presets: PRESETS, filePolicy };

const WIDTH = 100;
const INDENT = 2;

/** All names, each with its sentence. */
export function catalogueText({ workloads, policies, presets }: SimulateCatalogue): string {
  const all = [...workloads, ...policies, ...presets];
  const left = INDENT + Math.max(...all.map(({ name }) => name.length)) + 2;
  const section = (
    title: string,
    entries: readonly { readonly name: string; readonly about: string; readonly more?: string }[],
  ): string[] => [
    title,
    ...entries.flatMap(({ name, about, more }) => {
      const text = more === undefined ? about : `${about} (${more})`;
      return wrapped(text, WIDTH - left).map(
        (line, at) => (at === 0 ? " ".repeat(INDENT) + name : "").padEnd(left) + line,
      );
    }),
  ];
  const sections = [
    section(
      "workloads",
      workloads.map(({ name, about, rates, rateUnit, servers, preset }) => ({
        ...{ name, about },
        more: `${rates.join(", ")} ${rateUnit}; ${servers} x ${preset}`,
      })),
    ),
    section("policies, and --config-file FILE", policies),
    section("engine presets", presets),
  ];
  return `${sections.map((lines) => lines.join("\n")).join("\n\n")}\n`;
}

/** The same lists for programs. */
export function catalogueJson({ workloads, policies, presets }: SimulateCatalogue): unknown {
  return {
    workloads: workloads.map(({ name, about, rates, rateUnit, servers, preset, durationMs, warmUp }) => ({
      ...{ name, about, rates, rateUnit, servers, preset, durationMs, warmUp },
    })),
    policies: policies.map(({ name, about }) => ({ name, about })),
    presets: presets.map(({ name, about, config }) => ({ name, about, config })),
  };
}
