import { hostPort } from "../../base/inference/endpoint.ts";
import { modelServers, picker } from "./clusters.ts";
import { listener, MAX_RETRIES } from "./listener.ts";
import type { BootstrapPlan } from "./plan.ts";
import { address, toYaml } from "./tree.ts";

/** A bootstrap for Envoy as commented YAML; the same plan gives the same text. */
export function renderBootstrap(plan: BootstrapPlan): string {
  return toYaml(
    {
      admin: { address: address(plan.admin) },
      static_resources: { listeners: [listener(plan)], clusters: [modelServers(plan), picker(plan)] },
    },
    heading(plan),
  );
}

function heading(plan: BootstrapPlan): string {
  const { pool, envoyVersion, command } = plan;
  const run = ["sluice epp", ...(plan.tls === undefined ? ["--secure-serving=false"] : [])];
  if (plan.variant === "override-host") run.push(`--max-endpoints ${MAX_RETRIES + 1}`);
  return [
    `Envoy ${envoyVersion} in front of the Endpoint Picker of InferencePool ${pool.meta.namespace}/${pool.meta.name}.`,
    "",
    ...SUMMARY[plan.variant],
    "",
    `Envoy connects to ${pickersText(plan)}${plan.tls === undefined ? " in clear text" : " with TLS"}; run the picker with`,
    `  ${run.join(" ")}`,
    ...plan.warnings.flatMap((warning) => ["", `Note: ${warning}.`]),
    "",
    "Made by",
    `  ${command}`,
  ].join("\n");
}

/** Names a picker, or counts its replicas. */
function pickersText({ picker: { host, port }, morePickers = [] }: BootstrapPlan): string {
  const first = `the picker at ${hostPort(host, port)}`;
  return morePickers.length === 0 ? first : `${first} and ${morePickers.length} more of its replicas`;
}

const SUMMARY: Readonly<Record<BootstrapPlan["variant"], readonly string[]>> = {
  standalone: [
    "The picked endpoint travels in a request header, and an ORIGINAL_DST cluster connects to exactly that address. Needs no list of model servers. Fails closed.",
  ],
  tls: [
    "The picked endpoint travels in a request header, and an ORIGINAL_DST cluster connects to exactly that address. Envoy connects to the picker with TLS. Fails closed.",
  ],
  "subset-hint": [
    "The subset hint names the endpoints that the picker may choose from. The picked one travels as dynamic metadata to an ORIGINAL_DST cluster. Fails closed.",
  ],
  "override-host": [
    "The model servers are known to Envoy. The picker's list travels as dynamic metadata, and each retry takes the next entry. The flag --max-endpoints of the picker sets the length of the list, 1 by default.",
  ],
};
