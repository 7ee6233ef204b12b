import { SluiceError } from "../../base/inference/errors.ts";
import { at, parseJson } from "../../lab/check/answers.ts";
import { clockSkew } from "../../lab/check/clock-skew.ts";
import { PageSamples } from "../../lab/check/metrics-page.ts";
import { type AdminAccess, fetchAdmin } from "../common/admin-client.ts";
import { type EndpointFacts, GAUGES, type GaugeName, type RunningFacts } from "./facts.ts";

/** The metric with the version, in its label `build_ref`. */
const INFO = "llm_d_epp_info";
/** The series that counts, where it is not the sum of all. The budget of all bodies but the small ones is what runs out. */
const LABELS: Readonly<Partial<Record<GaugeName, string>>> = {
  bodyBytes: "pool=main",
  bodyLimit: "pool=main",
  saturation: "stage=effective",
};
const STATES = ["up", "blind", "down"] as const;
const SCHEMES = ["http", "https"] as const;

/**
 * What the admin port of a process says.
 * @throws SluiceError ADMIN_UNREACHABLE, ADMIN_REFUSED, ADMIN_FOREIGN; FLAG_..., DOCUMENT_... for a file of a flag
 */
export async function runningFacts(access: AdminAccess & { readonly admin: string }): Promise<RunningFacts> {
  const shown = await fetchAdmin(access, "/debug/endpoints");
  const list = at(parseJson(shown.text), "endpoints");
  if (shown.status !== 200 || !Array.isArray(list))
    throw new SluiceError("ADMIN_FOREIGN", `${access.admin} answers, but not as the admin port of a sluice gateway`);
  const [page, ready, why, plugins, queues] = await Promise.all(
    ["/metrics", "/ready", "/debug/ready", "/debug/plugins/state", "/debug/queues"].map((path) =>
      fetchAdmin(access, path),
    ),
  );
  const samples = new PageSamples(Buffer.from(page!.text), [INFO, ...Object.values(GAUGES)]);
  const because = at(parseJson(why!.text), "because");
  return {
    version: samples.findText(INFO)?.samples[0]?.labels.get("build_ref"),
    ready: ready!.status === 200,
    because: typeof because === "string" ? because : undefined,
    skew: clockSkew(shown.date, shown.sentAt, shown.took),
    endpoints: list.map(endpointOf),
    // Without flow control this page is absent.
    flowControl: queues!.status === 200,
    plugins: pluginsIn(at(parseJson(plugins!.text), "plugins")),
    gauges: gaugesIn(samples),
  };
}

function gaugesIn(samples: PageSamples): RunningFacts["gauges"] {
  const gauges: Partial<Record<GaugeName, number>> = {};
  for (const [name, metric] of Object.entries(GAUGES) as [GaugeName, string][]) {
    const label = LABELS[name];
    const one = label === undefined ? undefined : samples.findText(`${metric}{${label}}`);
    const value = one?.samples[0]?.value ?? samples.sum(metric);
    if (value !== undefined) gauges[name] = value;
  }
  return gauges;
}

/** The types of the plugins in force; undefined = another version of sluice. */
function pluginsIn(value: unknown): ReadonlySet<string> | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const types = Object.values(value).map((plugin) => at(plugin, "type"));
  return new Set(types.filter((type) => typeof type === "string"));
}

/** An entry of `/debug/endpoints`, of whatever version. */
function endpointOf(entry: unknown): EndpointFacts {
  const text = (...path: string[]): string => {
    const value = at(entry, ...path);
    return typeof value === "string" ? value : "";
  };
  const number = (...path: string[]): number | null => {
    const value = at(entry, ...path);
    return typeof value === "number" ? value : null;
  };
  const names = at(entry, "models", "names");
  return {
    id: text("id"),
    hostPort: text("hostPort"),
    scheme: SCHEMES.find((scheme) => scheme === text("scheme")),
    state: STATES.find((state) => state === text("state")) ?? "down",
    cause: text("cause"),
    sinceMs: number("sinceMs") ?? 0,
    models: Array.isArray(names) && !names.includes("*") ? names.filter((name) => typeof name === "string") : undefined,
    inFlight: number("inFlight", "requests") ?? 0,
    waiting: number("metrics", "waiting"),
    running: number("metrics", "running"),
    kvUsage: number("metrics", "kvUsage"),
    capacity: number("metrics", "capacity"),
    blockSize: number("metrics", "blockSize"),
    blocks: number("metrics", "blocks"),
    ageMs: number("metrics", "ageMs"),
    fresh: at(entry, "metrics", "fresh") === true,
  };
}
