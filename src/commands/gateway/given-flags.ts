import { parseListenAddress } from "../../base/inference/listen-address.ts";
import { objectivesFromFlags, parseObjective } from "../../pool/resources/objectives.ts";
import { resourceCounting } from "../../pool/resources/resource-settings.ts";
import { GivenSettings } from "../../wires/gateway/gateway-keys.ts";
import { trueOrFalse, wholeNumber } from "../common/command.ts";
import {
  type BodyOptions,
  bodySettingsFrom,
  type ExplainOptions,
  explainSettingsFrom,
} from "../common/exchange-flags.ts";
import { type LogOptions, logSettingsFrom } from "./log-options.ts";

/** The flags of `sluice gateway`, as commander reads them. */
export interface GatewayFlags extends ExplainOptions, BodyOptions, LogOptions {
  readonly config?: string;
  readonly endpoints?: string;
  readonly listen: string;
  readonly admin: string;
  readonly scaler?: string;
  readonly configFile?: string;
  readonly profile?: string;
  readonly allowExperimentalPlugins: boolean;
  readonly maxRetries: string;
  readonly retryStatuses: string;
  readonly allowPath: readonly string[];
  readonly printPaths: boolean;
  readonly objective: readonly string[];
  readonly resources?: string;
  readonly poolName?: string;
  readonly poolNamespace?: string;
  readonly modelMatching: string;
  readonly standardShedAt: string;
  readonly legacyCriticality: boolean;
  readonly learnBytesPerToken: string;
  readonly debugOpen: boolean;
}

/**
 * The settings that the command line gives. A flag that is not on it gives none, so the key of the file counts.
 * @param isGiven whether a flag is on the command line, by its name in `GatewayFlags`
 * @throws SluiceError FLAG_VALUE, FLAG_CONFLICT
 */
export function givenSettings(flags: GatewayFlags, isGiven: (flag: keyof GatewayFlags) => boolean): GivenSettings {
  const given = new GivenSettings();
  const take = (flag: keyof GatewayFlags, set: () => void): void => {
    if (isGiven(flag)) set();
  };
  take("endpoints", () => given.set("endpoints", { kind: "file", path: flags.endpoints! }));
  take("listen", () => given.set("listeners", [{ address: parseListenAddress(flags.listen, "--listen") }]));
  take("admin", () => given.set("admin.address", parseListenAddress(flags.admin, "--admin")));
  take("scaler", () => given.set("scaler.address", parseListenAddress(flags.scaler!, "--scaler")));
  take("debugOpen", () => given.set("admin.open", flags.debugOpen));
  if (isGiven("configFile") || isGiven("profile")) {
    // Either flag chooses the configuration, so no key of the file does.
    given.set("picker.configFile", flags.configFile);
    given.set("picker.profile", flags.profile);
    given.set("picker.config", undefined);
  }
  take("allowExperimentalPlugins", () => given.set("picker.allowExperimentalPlugins", flags.allowExperimentalPlugins));
  take("maxRetries", () => given.set("retries.max", wholeNumber(flags.maxRetries, "--max-retries", 0, 7)));
  take("retryStatuses", () => given.set("retries.statuses", statusesOf(flags.retryStatuses)));
  take("allowPath", () => given.set("paths.allow", [...flags.allowPath]));
  take("objective", () => {
    // It refuses one name with two priorities.
    objectivesFromFlags(flags.objective);
    const entries = flags.objective.map(parseObjective).map(({ name, priority }) => [name, priority] as const);
    given.set("objectives", Object.fromEntries(entries));
  });
  giveResources(flags, given, take);
  take("learnBytesPerToken", () =>
    given.set("learnBytesPerToken", trueOrFalse(flags.learnBytesPerToken, "--learn-bytes-per-token")),
  );
  const bodies = bodySettingsFrom(flags);
  take("bodyBudget", () => given.set("bodies.budget", bodies.limit));
  take("smallBody", () => given.set("bodies.small", bodies.small));
  take("smallBodyReserve", () => given.set("bodies.smallReserve", bodies.reserve));
  take("bodyMinRate", () => given.set("bodies.minRate", bodies.minRate));
  take("bodyStallWindow", () => given.set("bodies.stallWindow", bodies.window));
  const explain = explainSettingsFrom(flags);
  take("decisionHeader", () => given.set("explain.decisionHeader", explain.decisionHeader));
  take("fullRecordsEvery", () => given.set("explain.fullRecordsEvery", explain.fullRecordsEvery));
  const { logging } = logSettingsFrom(flags);
  take("logLevel", () => given.set("log.level", logging.level));
  take("logFormat", () => given.set("log.format", logging.encoder));
  take("requestLog", () => given.set("log.requests.which", flags.requestLog));
  take("requestLogFile", () => given.set("log.requests.file", flags.requestLogFile));
  return given;
}

function giveResources(
  flags: GatewayFlags,
  given: GivenSettings,
  take: (flag: keyof GatewayFlags, set: () => void) => void,
): void {
  const counting = resourceCounting({
    directory: flags.resources,
    pool: { name: flags.poolName, namespace: flags.poolNamespace },
    ...flags,
  });
  take("resources", () => given.set("resources.folder", flags.resources));
  take("poolName", () => given.set("resources.poolName", flags.poolName));
  take("poolNamespace", () => given.set("resources.poolNamespace", flags.poolNamespace));
  take("modelMatching", () => given.set("resources.modelMatching", counting.matching ?? "auto"));
  take("standardShedAt", () => given.set("resources.standardShedAt", counting.standardShedAt!));
  take("legacyCriticality", () => given.set("resources.legacyCriticality", flags.legacyCriticality));
}

function statusesOf(text: string): number[] {
  return text
    .split(",")
    .filter((part) => part.trim() !== "")
    .map((part) => wholeNumber(part, "--retry-statuses", 400, 599));
}
