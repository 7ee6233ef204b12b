import { counted, grouped } from "../../base/document/words.ts";
import type { InstallationFacts, RunningFacts } from "./facts.ts";
import { few } from "./few.ts";
import { fail, ok, type Said, warn } from "./finding.ts";
import { FULL } from "./load-checks.ts";
import { DAY, spanText } from "./span-text.ts";

const MIB = 2 ** 20;
/** Seconds that the event loop may stand still before answers are noticeably late. A start alone may take longer: no failure. */
const SLOW_LOOP = 0.25;
/** Milliseconds before the end of a certificate or key. */
const SOON = 14 * DAY;
const NEXT = 2 * DAY;
/** Milliseconds that a gateway may need to read a changed file. */
const RELOAD = 10_000;
/** Permission bits of others: any, and those that write. */
const OTHERS = 0o077;
const OTHERS_WRITE = 0o022;

/** Whether the admin port answers. */
export function checkAdmin({ running, admin }: InstallationFacts): Said[] {
  if (typeof running !== "string") return [ok(`the admin port answers at ${admin}`)];
  return [
    fail(
      running,
      "start the gateway, or name the admin address of the running process: sluice doctor --admin HOST:PORT",
    ),
  ];
}

/** The version of the process beside the one of this command. */
export function checkVersion({ running, cli }: InstallationFacts): Said[] {
  if (typeof running === "string") return [];
  const { version } = running;
  if (version === cli) return [ok(`the gateway and this command have the version ${cli}`)];
  return [
    warn(
      `the gateway has ${version ?? "an unknown version"}, this command has ${cli}`,
      "restart the gateway, or use the command from the gateway's version",
    ),
  ];
}

/** Whether the gateway takes requests; otherwise the reason that it gives. */
export function checkReady({ ready, because }: RunningFacts): Said[] {
  if (ready) return [ok("the gateway is ready")];
  return [
    fail(
      `the gateway is not ready: ${because ?? "no reason given"}`,
      "read the log of the gateway: an error line shows the cause",
    ),
  ];
}

/** File descriptors, byte budget, event loop. */
export function checkHeadroom({ gauges }: RunningFacts): Said[] {
  const said: Said[] = [];
  const { openFiles, maxFiles, bodyBytes, bodyLimit, bodiesPaused = 0, eventLoopLag, memory } = gauges;
  if (openFiles !== undefined && maxFiles !== undefined && maxFiles > 0 && openFiles > maxFiles * FULL)
    said.push(
      fail(
        `${grouped(openFiles)} of ${grouped(maxFiles)} file descriptors are open: new connections fail soon`,
        "raise the limit (ulimit -n, LimitNOFILE), or find the clients that keep connections open",
      ),
    );
  if (bodiesPaused > 0)
    said.push(
      warn(
        `${counted(bodiesPaused, "request body", "request bodies")} wait for memory`,
        "raise bodies.budget (--body-budget), or find the slow clients: see docs/operate/bodies.md",
      ),
    );
  else if (bodyBytes !== undefined && bodyLimit !== undefined && bodyLimit > 0 && bodyBytes > bodyLimit * FULL)
    said.push(
      warn(
        `request bodies use ${Math.round((bodyBytes / bodyLimit) * 100)} % of their byte budget`,
        "raise bodies.budget (--body-budget)",
      ),
    );
  if (eventLoopLag !== undefined && eventLoopLag > SLOW_LOOP)
    said.push(
      warn(
        `the event loop was blocked for ${spanText(eventLoopLag * 1000)}, and all requests waited`,
        "if doctor repeats this later, run the gateway on a free core, or run a second gateway",
      ),
    );
  if (said.length > 0) return said;
  const parts = [
    ...(openFiles === undefined || maxFiles === undefined
      ? []
      : [`${grouped(openFiles)} of ${grouped(maxFiles)} file descriptors`]),
    ...(bodyBytes === undefined || bodyLimit === undefined
      ? []
      : [`${grouped(bodyBytes / MIB)} of ${grouped(bodyLimit / MIB)} MiB for bodies`]),
    ...(eventLoopLag === undefined ? [] : [`event loop delay at most ${spanText(eventLoopLag * 1000)}`]),
    ...(memory === undefined ? [] : [`${grouped(memory / MIB)} MiB of memory`]),
  ];
  return parts.length === 0 ? [] : [ok(parts.join(", "))];
}

/** The configuration in force beside the one on disk. */
export function checkConfig({ running, file, now }: InstallationFacts): Said[] {
  const said: Said[] = [];
  if (file?.problem !== undefined)
    said.push(
      fail(`${file.path} cannot be used: ${file.problem}`, "correct the file, or the next start of the gateway fails"),
    );
  if (typeof running === "string")
    return said.length > 0 || file === undefined ? said : [ok(`${file.path} can be used`)];
  const { gauges, endpoints } = running;
  if (gauges.fileRefused === 1)
    said.push(
      fail(
        "the gateway refused the changed gateway file, and still uses the old file",
        "run sluice validate on the file",
      ),
    );
  if (gauges.configRefused === 1)
    said.push(
      fail(
        "the gateway refused a changed picker configuration, and still uses the old one",
        "run sluice validate on the file of the picker configuration",
      ),
    );
  if (gauges.limitsRefused === 1)
    said.push(
      fail(
        "the gateway refused the changed limits, and still uses the old limits",
        "read the error line in the log of the gateway, and correct the limits",
      ),
    );
  if ((gauges.fileRestartKeys ?? 0) > 0)
    said.push(
      warn(
        `${counted(gauges.fileRestartKeys!, "changed key")} of the gateway file will take effect only at the next start`,
        "restart the gateway; the log of the gateway names the keys",
      ),
    );
  const started = gauges.startedAt === undefined ? undefined : gauges.startedAt * 1000;
  const changed = file?.changedAt;
  const isUnread =
    changed !== undefined &&
    started !== undefined &&
    changed > started &&
    now - changed > RELOAD &&
    gauges.fileReloads === 0;
  const follows = gauges.fileReloads !== undefined;
  if (file !== undefined && !follows)
    said.push(
      warn(
        `the gateway runs without --config, so ${file.path} has no effect`,
        `restart the gateway with --config ${file.path}`,
      ),
    );
  else if (isUnread && file!.problem === undefined)
    said.push(
      warn(
        `${file!.path} changed ${spanText(now - changed)} ago, but the gateway has not read the change`,
        "check that the gateway was started with this file, or restart the gateway",
      ),
    );
  const drift =
    file?.endpoints === undefined
      ? []
      : differing(
          file.endpoints,
          endpoints.map(({ hostPort }) => hostPort),
        );
  if (drift.length > 0 && gauges.fileRefused !== 1)
    said.push(
      warn(
        `${file!.path} and the running gateway differ in these endpoints: ${few(drift)}`,
        "check that the gateway was started with this file",
      ),
    );
  if (said.length > 0) return said;
  return file === undefined
    ? [ok("the gateway refused no changed configuration")]
    : [ok(`${file.path} can be used, and the gateway refused no change`)];
}

/** The members of one list that the other has not. */
function differing(one: readonly string[], other: readonly string[]): string[] {
  return [...one.filter((name) => !other.includes(name)), ...other.filter((name) => !one.includes(name))];
}

/** The certificates that the gateway file names: readable, and valid for longer than 14 days. */
export function checkCertificates({ file, now }: InstallationFacts): Said[] {
  if (file === undefined || file.certificates.length === 0) return [];
  const said = file.certificates.flatMap(({ path, problem, ends }) => {
    if (problem !== undefined)
      return [
        warn(`the certificate ${path} cannot be read: ${problem}`, "run sluice doctor as the user of the gateway"),
      ];
    return endOf(
      `the certificate ${path}`,
      ends,
      now,
      "renew the certificate; the gateway reads the changed file without a restart",
    );
  });
  return said.length > 0
    ? said
    : [ok(`${counted(file.certificates.length, "certificate")} valid for at least 14 days`)];
}

/** The keys file: who can change it, and which keys end soon. */
export function checkKeys({ file, now }: InstallationFacts): Said[] {
  const keys = file?.keys;
  if (keys === undefined) return [];
  if (keys.problem !== undefined)
    return [
      fail(`${keys.path} cannot be used: ${keys.problem}`, "correct the file, or the next start of the gateway fails"),
    ];
  const said: Said[] = [];
  const mode = keys.mode ?? 0;
  const octal = (mode & 0o777).toString(8).padStart(3, "0");
  if ((mode & OTHERS_WRITE) !== 0)
    said.push(fail(`${keys.path} has the mode ${octal}: others can add keys`, `run chmod 600 ${keys.path}`));
  else if ((mode & OTHERS) !== 0)
    said.push(
      warn(`${keys.path} has the mode ${octal}: others can read names and hashes`, `run chmod 600 ${keys.path}`),
    );
  const ending = keys.keys.flatMap(({ name, expires }) => {
    if (expires === undefined || expires - now > SOON) return [];
    return [`${name} (${expires <= now ? "expired" : `in ${spanText(expires - now)}`})`];
  });
  if (ending.length > 0)
    said.push(
      warn(
        `keys that have expired, or expire within 14 days: ${few(ending)}`,
        "set a later `expires` in the keys file, or add new keys with sluice keys add; a rotated key keeps its expiry time",
      ),
    );
  if (keys.keys.length === 0)
    said.push(warn(`${keys.path} has no key that the gateway accepts`, "add a key with sluice keys add"));
  return said.length > 0 ? said : [ok(`${counted(keys.keys.length, "key")}, none expires within 14 days`)];
}

function endOf(what: string, ends: number | undefined, now: number, todo: string): Said[] {
  if (ends === undefined || ends - now > SOON) return [];
  if (ends <= now) return [fail(`${what} expired ${spanText(now - ends)} ago: the other side refuses it`, todo)];
  const says = `${what} expires in ${spanText(ends - now)}`;
  return [ends - now < NEXT ? fail(says, todo) : warn(says, todo)];
}
