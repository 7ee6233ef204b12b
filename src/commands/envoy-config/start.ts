import { isIP } from "node:net";
import { didYouMean } from "../../base/document/nearest.ts";
import { readDocument } from "../../base/document/read.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { parseListenAddress } from "../../base/inference/listen-address.ts";
import { splitHostPort } from "../../pool/endpoints/address.ts";
import { endpointsOf } from "../../pool/endpoints/endpoints-file.ts";
import { MAX_ENDPOINTS_BYTES } from "../../pool/endpoints/file-discovery.ts";
import { type FolderContent, ManifestFolder } from "../../pool/resources/manifests.ts";
import { GROUP, type InferencePool, type ResourceObject } from "../../pool/resources/objects.ts";
import { choosePool } from "../../pool/resources/pool-choice.ts";
import { renderBootstrap } from "../../wires/envoy/bootstrap.ts";
import {
  type BootstrapOptions,
  ENVOY_VERSIONS,
  FAILURE_MODES,
  REQUEST_BODY_MODES,
  type SocketAddress,
  VARIANTS,
} from "../../wires/envoy/options.ts";
import { planBootstrap } from "../../wires/envoy/plan.ts";

/** The most replicas of a picker: as many as hear each other. */
const MOST_PICKERS = 64;

/** The options of `sluice envoy-config`; addresses and choices are still text. */
export interface EnvoyConfigRequest extends Pick<BootstrapOptions, "tls" | "subset" | "subsetHeader" | "command"> {
  readonly variant: string;
  readonly envoyVersion: string;
  readonly failureMode: string | undefined;
  readonly requestBodyMode: string | undefined;
  /** Folder of manifests: every .yaml, .yml and .json in it. */
  readonly resources: string;
  readonly poolName: string | undefined;
  readonly poolNamespace: string | undefined;
  readonly listen: string;
  readonly admin: string;
  /** Replicas of the picker; none = the Service that the pool names. */
  readonly pickers: readonly string[];
  /** File of the model servers, in the format of `sluice gateway --endpoints`. */
  readonly endpointsFile: string | undefined;
}

/**
 * Makes an Envoy bootstrap from an InferencePool.
 * @returns the text, and sentences for the user: about the manifests, and about settings that Envoy cannot follow
 * @throws SluiceError RESOURCES_FILE when a manifest is wrong, ENVOY_RESOURCES when none holds that pool, POOL_AMBIGUOUS,
 *   FLAG_VALUE, ENVOY_PICKER, ENVOY_ENDPOINTS, and the errors of unreadable files
 */
export async function envoyConfig(
  request: EnvoyConfigRequest,
): Promise<{ readonly text: string; readonly warnings: readonly string[] }> {
  const { failureMode, requestBodyMode, tls, subset, subsetHeader, command } = request;
  const choices = {
    variant: oneOf(VARIANTS, request.variant, "--variant"),
    envoyVersion: oneOf(ENVOY_VERSIONS, request.envoyVersion, "--envoy-version"),
    failureMode: failureMode === undefined ? undefined : oneOf(FAILURE_MODES, failureMode, "--failure-mode"),
    requestBodyMode:
      requestBodyMode === undefined ? undefined : oneOf(REQUEST_BODY_MODES, requestBodyMode, "--request-body-mode"),
  };
  const [picker, ...morePickers] = pickersOf(request.pickers);
  const { objects, warnings } = await manifestsIn(request.resources);
  const plan = planBootstrap({
    ...choices,
    ...{ tls, subset, subsetHeader, command },
    pool: poolOf(objects, request),
    listen: listenAddress(request.listen, "--listen"),
    admin: listenAddress(request.admin, "--admin"),
    picker,
    morePickers,
    endpoints: request.endpointsFile === undefined ? [] : await serversIn(request.endpointsFile),
  });
  return { text: renderBootstrap(plan), warnings: [...warnings, ...plan.warnings] };
}

async function manifestsIn(folder: string): Promise<FolderContent> {
  const content = await new ManifestFolder(folder).read();
  if (content.problems.length > 0) throw new SluiceError("RESOURCES_FILE", content.problems.join("\n"));
  return content;
}

function poolOf(objects: readonly ResourceObject[], request: EnvoyConfigRequest): InferencePool {
  const pools = objects.filter((object) => object.kind === "InferencePool");
  const found = choosePool(pools, { name: request.poolName, namespace: request.poolNamespace });
  if (found !== undefined) return found;
  const there = pools.map(({ meta }) => `${meta.namespace}/${meta.name}`);
  throw new SluiceError(
    "ENVOY_RESOURCES",
    there.length === 0
      ? `there is no InferencePool in the manifests of ${request.resources} (${GROUP.stable}/v1 or ${GROUP.experimental}/v1alpha2)`
      : `no InferencePool in ${request.resources} matches --pool-name and --pool-namespace; the pools are ${[...new Set(there)].slice(0, 20).join(", ")}`,
  );
}

async function serversIn(file: string): Promise<readonly SocketAddress[]> {
  const { endpoints, problems } = endpointsOf(await readDocument(file, { maxBytes: MAX_ENDPOINTS_BYTES }), "lenient");
  if (problems.length > 0) throw new SluiceError("DOCUMENT_INVALID", problems.join("\n"));
  const servers = new Map(endpoints.map(({ address, port }) => [`${address} ${port}`, { host: address, port }]));
  return [...servers.values()];
}

function oneOf<T extends string>(choices: readonly T[], text: string, flag: string): T {
  const found = choices.find((choice) => choice === text);
  if (found !== undefined) return found;
  throw new SluiceError("FLAG_VALUE", `${flag} is "${text}"; give ${choices.join(", ")}${didYouMean(text, choices)}`);
}

function listenAddress(text: string, flag: string): SocketAddress {
  const address = parseListenAddress(text, flag);
  if (isIP(address.host) === 0)
    throw new SluiceError("FLAG_VALUE", `${flag} "${text}" is a host name; give the IP address for Envoy`);
  return address;
}

/** @throws SluiceError FLAG_VALUE, FLAG_CONFLICT */
function pickersOf(texts: readonly string[]): readonly SocketAddress[] {
  const twice = texts.find((text, i) => texts.indexOf(text) < i);
  if (twice !== undefined) throw new SluiceError("FLAG_CONFLICT", `--picker names ${twice} twice`);
  if (texts.length > MOST_PICKERS)
    throw new SluiceError("FLAG_VALUE", `--picker names ${texts.length} replicas; at most ${MOST_PICKERS} can share`);
  return texts.map(dialAddress);
}

function dialAddress(text: string): SocketAddress {
  const found = splitHostPort(text.trim());
  if (
    found === undefined ||
    (isIP(found.address) === 0 && !/^[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?$/.test(found.address))
  )
    throw new SluiceError(
      "FLAG_VALUE",
      `--picker "${text}" is not an address; write host:port, for example 127.0.0.1:9002 or llm-epp.default.svc:9002`,
    );
  return { host: found.address, port: found.port };
}
