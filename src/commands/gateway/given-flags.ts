import { parseListenAddress } from "../../base/inference/listen-address.ts";
import { objectivesFromFlags, parseObjective } from "../../pool/resources/objectives.ts";
import { resourceCounting } from "../../pool/resources/resource-settings.ts";
import { GivenSettings } from "../../wires/gateway/gateway-keys.ts";
import { LONGEST_STREAM_REST } from "../../wires/gateway/longest-stream-rest.ts";
import { durationOf, trueOrFalse, wholeNumber } from "../common/command.ts";
import {
  type BodyOptions,
  bodySettingsFrom,
  type ExplainOptions,
  explainSettingsFrom,
  type MemoryOptions,
  memoryLimitFrom,
} from "../common/exchange-flags.ts";
import { type KeysOptions, keysSettingsFrom } from "../common/keys-options.ts";
import type { PeersOptions } from "../common/peers-flags.ts";
import { type BatchOptions, giveBatches } from "./batch-options.ts";
import { type ConnectionOptions, connectionsFrom } from "./connection-options.ts";
import { checkLimitsFlags, type LimitsOptions } from "./limits-options.ts";
import { type LogOptions, logSettingsFrom } from "./log-options.ts";

/** The flags of `sluice gateway`, as commander reads them. */
export interface GatewayFlags
  extends ExplainOptions,
    BodyOptions,
    MemoryOptions,
    KeysOptions,
    LimitsOptions,
    PeersOptions,
    LogOptions,
    ConnectionOptions,
    BatchOptions {
  readonly config?: string;
  readonly endpoints?: string;
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
  readonly streamRest: string;
  readonly prometheus?: string;
  readonly drainTimeout: string;
}

/** Runs `set` where a flag is on the command line. */
type Take = (flag: keyof GatewayFlags, set: () => void) => void;

/**
 * The settings that the command line gives. A flag that is not on it gives none, so the key of the file counts.
 * @param isGiven whether a flag is on the command line, by its name in `GatewayFlags`
 * @throws SluiceError FLAG_VALUE, FLAG_CONFLICT, FLAG_MISSING
 */
export async function givenSettings(
  flags: GatewayFlags,
  isGiven: (flag: keyof GatewayFlags) => boolean,
): Promise<GivenSettings> {
  const given = new GivenSettings();
  const take: Take = (flag, set) => {
    if (isGiven(flag)) set();
  };
  take("endpoints", () => given.set("endpoints", { kind: "file", path: flags.endpoints! }));
  giveConnections(flags, given, isGiven);
  await giveKeys(flags, given, take);
  giveLimits(flags, given, take);
  take("streamRest", () =>
    given.set("streams.rest", durationOf(flags.streamRest, "--stream-rest", 0, LONGEST_STREAM_REST)),
  );
  take("drainTimeout", () => given.set("drain.timeout", durationOf(flags.drainTimeout, "--drain-timeout", 0)));
  take("admin", () => given.set("admin.address", parseListenAddress(flags.admin, "--admin")));
  take("scaler", () => given.set("scaler.address", parseListenAddress(flags.scaler!, "--scaler")));
  take("peers", () => given.set("peers.redis", flags.peers));
  take("peersName", () => given.set("peers.name", flags.peersName));
  take("peersCa", () => given.set("peers.ca", flags.peersCa));
  take("peersCert", () => given.set("peers.certificate", flags.peersCert));
  take("peersKey", () => given.set("peers.key", flags.peersKey));
  take("prometheus", () => given.set("admin.prometheus", flags.prometheus));
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
  take("memoryLimit", () => given.set("memory.limit", memoryLimitFrom(flags)));
  const bodies = bodySettingsFrom(flags);
  take("bodyBudget", () => given.set("bodies.budget", bodies.limit));
  take("smallBody", () => given.set("bodies.small", bodies.small));
  take("smallBodyReserve", () => given.set("bodies.smallReserve", bodies.reserve));
  take("bodyMinRate", () => given.set("bodies.minRate", bodies.minRate));
  take("bodyStallWindow", () => given.set("bodies.stallWindow", bodies.window));
  const explain = explainSettingsFrom(flags);
  take("decisionHeader", () => given.set("explain.decisionHeader", explain.decisionHeader));
  take("fullRecordsEvery", () => given.set("explain.fullRecordsEvery", explain.fullRecordsEvery));
  giveBatches(flags, given, take);
  const { logging } = logSettingsFrom(flags);
  take("logLevel", () => given.set("log.level", logging.level));
  take("logFormat", () => given.set("log.format", logging.encoder));
  take("requestLog", () => given.set("log.requests.which", flags.requestLog));
  take("requestLogFile", () => given.set("log.requests.file", flags.requestLogFile));
  return given;
}

/** Any flag of a listener makes the only listener; any flag of TLS to servers says all of it. */
function giveConnections(
  flags: GatewayFlags,
  given: GivenSettings,
  isGiven: (flag: keyof GatewayFlags) => boolean,
): void {
  const { listeners, serverTls, cors, clients } = connectionsFrom(flags);
  const any = (...names: readonly (keyof GatewayFlags)[]): boolean => names.some(isGiven);
  if (any("listen", "tlsCert", "tlsKey", "clientCa")) {
    const only = listeners.map(({ host, port, tls }) => ({ address: { host, port }, tls }));
    given.set("listeners", only);
  }
  if (any("serverTls", "serverCa", "serverName", "serverCert", "serverKey")) given.set("servers.tls", serverTls);
  if (isGiven("corsOrigin")) given.set("cors", cors && { origins: [...cors.origins] });
  if (isGiven("maxConnections")) given.set("connections.max", clients!.connections!);
  if (isGiven("maxConnectionsPerAddress")) given.set("connections.perAddress", clients!.connectionsPerAddress);
}

async function giveKeys(flags: GatewayFlags, given: GivenSettings, take: Take): Promise<void> {
  const keys = await keysSettingsFrom(flags);
  take("keys", () => given.set("keys.file", keys.file));
  // Without an issuer, the other flags of tokens are errors.
  take("jwtIssuer", () => given.set("keys.jwt", keys.jwt));
  take("open", () => given.set("keys.open", keys.open));
}

function giveLimits(flags: GatewayFlags, given: GivenSettings, take: Take): void {
  checkLimitsFlags(flags);
  take("limits", () => {
    given.set("limits.file", flags.limits);
    given.set("limits.rules", []);
  });
  take("limitsRedis", () => given.set("limits.redis", flags.limitsRedis));
  take("limitsCa", () => given.set("limits.ca", flags.limitsCa));
  take("limitsCert", () => given.set("limits.certificate", flags.limitsCert));
  take("limitsKey", () => given.set("limits.key", flags.limitsKey));
}

function giveResources(flags: GatewayFlags, given: GivenSettings, take: Take): void {
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
