import { formatPath } from "../../base/document/document.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { GROUP, type InferencePool, type PickerReference } from "./objects.ts";
import { readResource } from "./read.ts";

/** Port of an Endpoint Picker's Service where v1alpha2 names none. */
const DEFAULT_PICKER_PORT = 9002;

/**
 * The port of an Endpoint Picker: the given one, else 9002 for a Service.
 * @returns undefined for other kinds, whose port is unknown
 */
export function effectivePort({ kind, port }: PickerReference): number | undefined {
  return port ?? (kind === "Service" ? DEFAULT_PICKER_PORT : undefined);
}

/** A pool in the form of v1. An open port stays open; `storableV1` closes it (api-resources 1.6). */
export function asStable(pool: InferencePool): InferencePool {
  return pool.group === GROUP.stable ? pool : { ...pool, group: GROUP.stable };
}

/**
 * A pool in the form of v1alpha2, which has only one port and no `appProtocol`: the first port is kept, the protocol is dropped
 * (api-resources 1.6, R-6).
 * @throws SluiceError POOL_WITHOUT_PICKER: v1alpha2 needs a picker
 */
export function asExperimental(pool: InferencePool): InferencePool {
  if (pool.group === GROUP.experimental) return pool;
  if (pool.picker === undefined)
    throw new SluiceError(
      "POOL_WITHOUT_PICKER",
      `InferencePool ${pool.meta.namespace}/${pool.meta.name} has no endpointPickerRef, but v1alpha2 needs an ` +
        "extensionRef; add endpointPickerRef to the pool first",
    );
  return { ...pool, group: GROUP.experimental, targetPorts: pool.targetPorts.slice(0, 1), appProtocol: "http" };
}

/** An InferencePool v1 that may be written to a file or an API server. */
export interface StablePoolManifest {
  readonly apiVersion: string;
  readonly kind: "InferencePool";
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly targetPorts: readonly { readonly number: number }[];
    readonly appProtocol?: InferencePool["appProtocol"];
    readonly endpointPickerRef?: Omit<PickerReference, "port"> & { readonly port?: { readonly number: number } };
  };
}

/**
 * A pool of either group as a manifest of v1 that an API server accepts: an open port of a Service becomes 9002 (api-resources
 * 1.6, R-5). Fields that a server adds (uid, times, generation) are left out.
 * @throws SluiceError POOL_NOT_STORABLE for a pool that only v1alpha2 admits, such as one with a selector without labels
 */
export function storableV1(pool: InferencePool): StablePoolManifest {
  const { meta, selector, targetPorts, appProtocol } = pool;
  const { labels, annotations } = meta;
  const manifest: StablePoolManifest = {
    apiVersion: `${GROUP.stable}/v1`,
    kind: "InferencePool",
    metadata: {
      name: meta.name,
      namespace: meta.namespace,
      ...(Object.keys(labels).length > 0 && { labels }),
      ...(Object.keys(annotations).length > 0 && { annotations }),
    },
    spec: {
      selector: { matchLabels: selector },
      targetPorts: targetPorts.map((number) => ({ number })),
      ...(appProtocol !== undefined && { appProtocol }),
      ...(pool.picker !== undefined && { endpointPickerRef: pickerManifest(pool.picker) }),
    },
  };
  const reading = readResource(manifest);
  if (reading.outcome !== "invalid") return manifest;
  const problems = reading.violations.map(({ path, problem }) => `${formatPath(path)}: ${problem}`).join("; ");
  throw new SluiceError(
    "POOL_NOT_STORABLE",
    `InferencePool ${meta.namespace}/${meta.name} can't become v1: ${problems}`,
  );
}

function pickerManifest(picker: PickerReference): NonNullable<StablePoolManifest["spec"]["endpointPickerRef"]> {
  const { port: _, ...reference } = picker;
  const number = effectivePort(picker);
  return number === undefined ? reference : { ...reference, port: { number } };
}
