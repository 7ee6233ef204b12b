import { dirname, resolve } from "node:path";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { type Document, partOf } from "../../base/document/document.ts";
import { isObject } from "../../base/document/json-object.ts";
import { check, type Violation } from "../../base/document/validate.ts";
import { counted } from "../../base/document/words.ts";
import { hostPort } from "../../base/inference/endpoint.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { discoveryOf } from "../../pool/discovery/discovery-of.ts";
import { type EndpointsSettings, endpointsSettings } from "../../pool/discovery/endpoints-settings.ts";
import { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import { namesOf } from "../../pool/endpoints/served-models.ts";
import { adaptersWithoutLimit, rulesOf } from "../../wires/gateway/adapters-without-limit.ts";
import { gatewayFileOf, withEndpointPaths } from "../../wires/gateway/gateway-file.ts";
import { valueAt } from "../../wires/gateway/gateway-keys.ts";
import type { GatewaySettings } from "../../wires/gateway/gateway-settings.ts";
import { namedFileFaults } from "../../wires/gateway/named-files.ts";
import { type ConfigInput, type ConfigVerdict, validateConfig, validateDocument } from "./config-tools.ts";

/**
 * Checks a gateway.yaml with the files that it names, and reports the faults of all parts together: its keys, the configuration
 * of the picker, certificates, the keys and limits of clients, the endpoints file and the host list. It asks no server and reads
 * no environment.
 */
export async function validateGateway(document: Document, input: ConfigInput): Promise<ConfigVerdict> {
  const folder = input.file === "-" ? process.cwd() : dirname(resolve(input.file));
  const errors: Pick<SluiceError, "code" | "message">[] = [];
  const warnings: string[] = [];
  let settings: GatewaySettings | undefined;
  try {
    settings = gatewayFileOf(document, folder).settings;
  } catch (error) {
    errors.push(known(error));
  }
  const picker = await pickerVerdict(document, folder, input);
  if (picker?.error !== undefined) errors.push(picker.error);
  warnings.push(...(picker?.warnings ?? []));
  errors.push(...(await namedFileFaults(document, folder)));
  let found: Found = { text: "endpoints of the flags or of the configuration", models: [] };
  const section = valueAt(document.value, "endpoints");
  const checked = check(section, endpointsSettings, ["endpoints"], [] as Violation[]);
  if (checked !== undefined) {
    try {
      found = await describe(withEndpointPaths(checked.output, folder), warnings);
    } catch (error) {
      errors.push(known(error));
    }
  }
  if (errors.length > 0 || settings === undefined) {
    const message = errors.map((error) => error.message).join("\n");
    return { file: document.file, summary: undefined, error: { code: errors[0]!.code, message }, warnings };
  }
  const listeners = settings.listeners.map(({ address }) => hostPort(address.host, address.port)).join(", ");
  const hint = adaptersWithoutLimit(await rulesOf(settings.limits), found.models);
  const profile = picker?.summary ?? `profile ${settings.picker.profile ?? "default"}`;
  return {
    file: document.file,
    summary: [`gateway on ${listeners}`, found.text, profile, ...(hint === undefined ? [] : [hint])].join("; "),
    error: undefined,
    warnings,
  };
}

function known(error: unknown): Pick<SluiceError, "code" | "message"> {
  if (error instanceof SluiceError) return { code: error.code, message: error.message };
  throw error;
}

/** The verdict about the configuration of the picker; undefined where the file has none. */
function pickerVerdict(document: Document, folder: string, input: ConfigInput): Promise<ConfigVerdict | undefined> {
  const allowExperimental =
    input.allowExperimental || valueAt(document.value, "picker.allowExperimentalPlugins") === true;
  const inline = valueAt(document.value, "picker.config");
  if (isObject(inline)) return validateDocument(partOf(document, ["picker", "config"]), folder, allowExperimental);
  const file = valueAt(document.value, "picker.configFile");
  if (typeof file === "string" && file !== "")
    return validateConfig({ ...input, allowExperimental, file: resolve(folder, file) });
  return Promise.resolve(undefined);
}

/** The endpoints of a gateway.yaml. */
interface Found {
  /** In a few words. */
  readonly text: string;
  /** What each endpoint states as its models. */
  readonly models: readonly (readonly string[])[];
}

/**
 * The endpoints, after a start of their discovery in a pool that nobody uses.
 * @throws SluiceError of the discovery
 */
async function describe(settings: EndpointsSettings, warnings: string[]): Promise<Found> {
  const unread = (text: string): Found => ({ text, models: [] });
  if (settings.kind === "dns")
    return unread(`endpoints from DNS: ${settings.names.map(({ name }) => name).join(", ")}`);
  if (settings.kind === "slurm" && settings.env !== undefined) return unread(`endpoints from $${settings.env}`);
  const clock = new VirtualClock();
  const pool = new EndpointRegistry({ clock, random: new SeededRandom(1) });
  const log: Logger = {
    ...silentLogger,
    warn: (fields, message) =>
      void warnings.push(Object.keys(fields).length === 0 ? message : `${message}: ${JSON.stringify(fields)}`),
  };
  const discovery = discoveryOf(settings, { pool, env: {}, clock, log, needsAnswers: true });
  try {
    await discovery.start();
  } finally {
    discovery.close();
  }
  return { text: counted(pool.size, "endpoint"), models: pool.list().map(({ models }) => namesOf(models)) };
}
