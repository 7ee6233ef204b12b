import { counted, listed } from "../../base/document/words.ts";
import { provenSkew } from "../../lab/check/clock-skew.ts";
import type { EndpointFacts, InstallationFacts, RunningFacts } from "./facts.ts";
import { few, MAX_NAMED } from "./few.ts";
import { fail, ok, type Said, warn } from "./finding.ts";
import { spanText } from "./span-text.ts";

/** Milliseconds by which clocks may differ before logs and expiries mislead. */
export const MAX_SKEW = 2000;

/** How the problem of a server begins whose certificate or handshake is not in order. */
const TLS_PROBLEM = "TLS: ";

/** Plugins that read a value of the metrics page. */
const READERS = {
  waiting: ["queue-scorer", "load-aware-scorer"],
  running: ["running-requests-size-scorer"],
  kvUsage: ["kv-cache-utilization-scorer"],
  blockSize: [],
} as const;
const VALUE_WORDS = {
  waiting: "the number of waiting requests",
  running: "the number of running requests",
  kvUsage: "the use of the KV cache",
  blockSize: "the block size of the KV cache",
} as const;

/** State, cause and age of the state of each endpoint. */
export function checkEndpoints({ endpoints, flowControl }: RunningFacts): Said[] {
  if (endpoints.length === 0) {
    const fate = flowControl ? "requests wait in flow control for the first endpoint" : "the gateway answers 503";
    return [fail(`the gateway has no endpoint: ${fate}`, "name the model servers in `endpoints` of gateway.yaml")];
  }
  const isDown = endpoints.every(({ state }) => state === "down");
  const notUp = endpoints.filter(({ state }) => state !== "up");
  const each = notUp.slice(0, MAX_NAMED).map((endpoint) => {
    const about = `${endpoint.id} (${endpoint.hostPort}) is ${endpoint.state} for ${spanText(endpoint.sinceMs)}: ${endpoint.cause}`;
    return endpoint.state === "down"
      ? fail(
          `${about}; ${isDown ? fateOfAllDown(flowControl) : "requests go to the endpoints that are not down"}`,
          "start the server, or remove the server from the configuration",
        )
      : warn(
          `${about}; the endpoint gets requests, but the gateway knows only the load of its own requests`,
          "repair /metrics of the server: sluice check-server names the fault",
        );
  });
  const more = notUp.length - each.length;
  if (more > 0)
    each.push(
      fail(`${counted(more, "further endpoint")} not up`, "read /debug/endpoints of the admin port, which lists all"),
    );
  return notUp.length === 0 ? [ok(`${counted(endpoints.length, "endpoint")} up`)] : each;
}

/** What requests meet while every endpoint is down. A detector that reads metrics then takes the pool for full. */
function fateOfAllDown(flowControl: boolean): string {
  return flowControl
    ? "all are down: a request waits in flow control, or the gateway tries them and answers 503"
    : "all are down: the gateway tries them and answers 503";
}

/** Models without a server, or with one alone. */
export function checkModels({ endpoints }: RunningFacts): Said[] {
  if (endpoints.length === 0) return [];
  const byModel = new Map<string, EndpointFacts[]>();
  for (const endpoint of endpoints)
    for (const model of endpoint.models ?? []) {
      const servers = byModel.get(model);
      if (servers === undefined) byModel.set(model, [endpoint]);
      else servers.push(endpoint);
    }
  const serving = (model: string): readonly EndpointFacts[] =>
    [...byModel.get(model)!, ...endpoints.filter(({ models }) => models === undefined)].filter(
      ({ state }) => state !== "down",
    );
  const names = [...byModel.keys()].sort();
  const down = names.filter((model) => serving(model).length === 0);
  const single = names.filter((model) => serving(model).length === 1);
  const said: Said[] = [];
  if (down.length > 0)
    said.push(fail(`no server of ${few(down)} is up: requests for this model get 503`, "start a server of the model"));
  if (single.length > 0)
    said.push(
      warn(
        `only one server serves ${single.length > 1 ? "each of " : ""}${few(single)}: when it fails, no other server can answer`,
        "add a second server of the model",
      ),
    );
  if (names.length === 0)
    said.push(
      warn(
        "no endpoint lists its models",
        "check a server with curl http://HOST:PORT/v1/models, or write `models` into the entries of the endpoints",
      ),
    );
  return said.length > 0 ? said : [ok(`${counted(names.length, "model")}, each on at least two servers`)];
}

/** Metrics that are old, or that a server does not have. */
export function checkMetrics({ endpoints, plugins }: RunningFacts): Said[] {
  const there = endpoints.filter(({ state }) => state !== "down");
  const said: Said[] = [];
  const old = there.filter(({ fresh, state }) => !fresh && state === "up");
  if (old.length > 0)
    said.push(
      warn(
        `the metrics of ${few(old.map(({ id, ageMs }) => `${id} (${ageMs === null ? "never read" : spanText(ageMs)})`))} are old: decisions assume the worst known load for these endpoints`,
        "/metrics of each server must answer within 1 s",
      ),
    );
  for (const value of ["waiting", "running", "kvUsage", "blockSize"] as const) {
    const without = there.filter((endpoint) => endpoint[value] === null);
    if (without.length === 0) continue;
    const blind = READERS[value].filter((type) => plugins === undefined || plugins.has(type));
    // Nobody misses a value that no plugin in force reads.
    if (blind.length === 0) continue;
    said.push(
      warn(
        `${few(without.map(({ id }) => id))} does not show ${VALUE_WORDS[value]}, which ${listed(blind)} reads`,
        "turn on the metrics of the server, or name its engine in the label llm-d.ai/engine-type",
      ),
    );
  }
  if (said.length > 0 || there.length === 0) return said;
  const ages = there.map(({ ageMs }) => ageMs ?? 0);
  return [ok(`metrics of ${counted(there.length, "endpoint")} are fresh, the oldest ${spanText(Math.max(...ages))}`)];
}

/** Servers as this machine sees them. The gateway may have another way to them, so silence is no failure here. */
export function checkServers({ servers, unasked, file }: InstallationFacts): Said[] {
  if (unasked !== undefined) return [warn(`servers were not checked: ${unasked.because}`, unasked.todo)];
  if (servers === undefined || servers.size === 0) return [];
  const silent = [...servers].filter(([, { problem }]) => problem !== undefined);
  const insecure = silent.filter(([, { problem }]) => problem!.startsWith(TLS_PROBLEM));
  const away = silent.filter((server) => !insecure.includes(server));
  const each = (list: typeof silent): string => few(list.map(([hostPort, { problem }]) => `${hostPort} (${problem})`));
  const said: Said[] = [];
  if (insecure.length > 0)
    said.push(
      warn(
        `TLS fails with ${each(insecure)}: a gateway with the same settings cannot send requests there`,
        `correct servers.tls${file === undefined ? "" : ` in ${file.path}`}, or the certificate of the server: see docs/operate/tls.md`,
      ),
    );
  if (away.length > 0)
    said.push(
      warn(
        `this machine gets no answer from ${each(away)}`,
        "run sluice doctor on the machine of the gateway, or check the network between this machine and the servers",
      ),
    );
  if (said.length > 0) return said;
  const secure = [...servers.values()].filter(({ origin }) => origin.startsWith("https:")).length;
  const tls = secure === 0 ? "" : secure === servers.size ? " over TLS" : `, ${secure} of them over TLS`;
  return [ok(`${counted(servers.size, "server answers", "servers answer")} this machine${tls}`)];
}

/** Versions that differ between the servers of one model. */
export function checkVersions({ running, servers }: InstallationFacts): Said[] {
  if (typeof running === "string" || servers === undefined) return [];
  const byModel = new Map<string, Map<string, string[]>>();
  for (const { id, hostPort, models } of running.endpoints) {
    const found = servers.get(hostPort);
    if (found?.version === undefined) continue;
    const version = `${found.engine ?? "server"} ${found.version}`;
    for (const model of models ?? []) {
      const versions = byModel.get(model) ?? new Map<string, string[]>();
      byModel.set(model, versions.set(version, [...(versions.get(version) ?? []), id]));
    }
  }
  const mixed = [...byModel].filter(([, versions]) => versions.size > 1);
  if (mixed.length > 0)
    return mixed
      .slice(0, MAX_NAMED)
      .map(([model, versions]) =>
        warn(
          `the servers of ${model} differ: ${[...versions].map(([version, ids]) => `${version} on ${few(ids)}`).join("; ")}`,
          "install one version on all of these servers: answers and speed may differ",
        ),
      );
  return byModel.size === 0 ? [] : [ok("all servers of a model have the same version")];
}

/** Clocks of gateway, servers and Redis beside the one of this machine. */
export function checkClocks({ running, servers, file }: InstallationFacts): Said[] {
  const clocks = [
    ...(typeof running === "string" ? [] : [{ name: "the gateway", skew: running.skew }]),
    ...[...(servers ?? [])].map(([name, { skew }]) => ({ name, skew })),
    ...(file?.redis === undefined ? [] : [{ name: `Redis ${file.redis.server}`, skew: file.redis.skew }]),
  ].filter(({ skew }) => skew !== undefined);
  const wrong = clocks.filter(({ skew }) => provenSkew(skew!) > MAX_SKEW);
  if (wrong.length > 0)
    return [
      warn(
        `the clocks of ${few(wrong.map(({ name, skew }) => `${name} (${skew!.ms > 0 ? "+" : "-"}${spanText(Math.abs(skew!.ms))})`))} differ from the clock of this machine: keys and tokens expire too early or too late, and times in logs are wrong`,
        "set the clocks by NTP",
      ),
    ];
  return clocks.length === 0 ? [] : [ok(`${counted(clocks.length, "clock agrees", "clocks agree")} with this machine`)];
}
