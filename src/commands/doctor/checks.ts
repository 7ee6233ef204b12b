import {
  checkClocks,
  checkEndpoints,
  checkMetrics,
  checkModels,
  checkServers,
  checkVersions,
} from "./endpoint-checks.ts";
import type { InstallationFacts, RunningFacts } from "./facts.ts";
import type { Finding, Said } from "./finding.ts";
import { checkLimits, checkRedis } from "./limits-checks.ts";
import { checkLoad } from "./load-checks.ts";
import {
  checkAdmin,
  checkCertificates,
  checkConfig,
  checkHeadroom,
  checkKeys,
  checkReady,
  checkVersion,
} from "./process-checks.ts";

type Check = (facts: InstallationFacts) => readonly Said[];

/** A check of what the process says; silent when it says nothing, which is a finding of its own. */
function ofRunning(check: (running: RunningFacts) => readonly Said[]): Check {
  return ({ running }) => (typeof running === "string" ? [] : check(running));
}

/** All checks in the order of the report. */
export const CHECKS: Readonly<Record<string, Check>> = {
  admin: checkAdmin,
  version: checkVersion,
  ready: ofRunning(checkReady),
  endpoints: ofRunning(checkEndpoints),
  models: ofRunning(checkModels),
  metrics: ofRunning(checkMetrics),
  load: ofRunning(checkLoad),
  headroom: ofRunning(checkHeadroom),
  servers: checkServers,
  versions: checkVersions,
  clocks: checkClocks,
  config: checkConfig,
  certificates: checkCertificates,
  keys: checkKeys,
  limits: checkLimits,
  redis: checkRedis,
};

/** Judges an installation. It reads nothing but `facts`. */
export function findingsOf(facts: InstallationFacts): Finding[] {
  return Object.entries(CHECKS).flatMap(([check, judge]) => judge(facts).map((said) => ({ check, ...said })));
}
