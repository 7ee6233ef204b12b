import { Document, type Node, type Scalar, visit, YAMLMap, type YAMLSeq } from "yaml";
import { formatPath, type Path } from "../../base/document/document.ts";
import type { ExplainedConfig } from "./explain.ts";

/**
 * Returns an explained configuration as YAML, with a comment on the origin of each value. The text itself is a configuration
 * with the same meaning.
 */
export function explainText({
  source,
  config,
  origins,
  automatic,
  producers,
  reads,
  queueing,
  weights,
  warnings,
}: ExplainedConfig): string {
  const document = new Document(config);
  const explain = (node: Scalar | YAMLMap | YAMLSeq, ancestors: readonly unknown[]): void => {
    const origin = origins[formatPath(pathOf(node, ancestors))];
    if (origin !== undefined) node.comment = ` ${origin}`;
  };
  visit(document, {
    Collection(_role, node, ancestors) {
      if (node.items.length > 0) return;
      // Otherwise the comment would get a line of its own.
      node.flow = true;
      explain(node as YAMLMap | YAMLSeq, ancestors);
    },
    Scalar(role, node, ancestors) {
      if (role === "key") return;
      explain(node, ancestors);
    },
  });
  const head = [
    `The effective configuration of ${source}.`,
    ...weightLines(weights),
    `Producers in the order in which they run: ${producers.join(", ") || "none"}.`,
    ...reads.map(({ plugin, producers }) => `${plugin} reads what ${producers.join(", ")} writes.`),
    `Made automatically: ${automatic.map(({ name }) => name).join(", ") || "nothing"}.`,
    `Flow control: ${QUEUEING[queueing]}.`,
    ...("requestHandler" in config ? [] : ["Parsers: the default parsers."]),
    ...warnings.map((warning) => `Warning: ${warning}`),
  ];
  return `${head.map((line) => `# ${line}\n`).join("")}${document.toString({ lineWidth: 0, minContentWidth: 0 })}`;
}

const QUEUEING = {
  on: "on",
  off: "off",
  "with InferenceModels":
    "off, but on with fair shares of tokens while InferenceModels of a v1alpha2 pool exist. The feature gate flowControl overrides this",
} as const satisfies Record<ExplainedConfig["queueing"], string>;

/** Returns a line for each profile that has scorers. */
function weightLines(weights: ExplainedConfig["weights"]): string[] {
  const profiles = new Map<string, string[]>();
  for (const { profile, name, weight, share } of weights) {
    const scorers = profiles.get(profile) ?? [];
    profiles.set(profile, scorers);
    scorers.push(`${name} ${weight} (${Math.round(share * 100)}%)`);
  }
  if (profiles.size === 0) return ["Scorers by weight: none."];
  const several = profiles.size > 1;
  return [...profiles].map(
    ([name, scorers]) => `Scorers${several ? ` of ${name}` : ""} by weight: ${scorers.join(", ")}.`,
  );
}

/** Returns the keys and indices from the top of the document down to a node. */
function pathOf(node: Node, ancestors: readonly unknown[]): Path {
  const path: (string | number)[] = [];
  const chain = [...ancestors, node];
  chain.forEach((part, at) => {
    const inner = chain[at + 1];
    if (inner === undefined) return;
    if (part instanceof YAMLMap) path.push(String((inner as { readonly key: { readonly value: unknown } }).key.value));
    else if (typeof part === "object" && part !== null && "items" in part)
      path.push((part.items as readonly unknown[]).indexOf(inner));
  });
  return path;
}
