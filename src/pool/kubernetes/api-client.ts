/** One request to an API server. */
export interface ApiRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Begins with a slash; see `objectPath`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Default `application/json`; `application/apply-patch+yaml` for server-side apply. */
  readonly contentType?: string;
  /** Milliseconds for the whole answer; default 30,000. */
  readonly timeout?: number;
  readonly signal?: AbortSignal;
}

/** A connection to one API server, authenticated. It knows none of Sluice's kinds. */
export interface ApiClient {
  /** `https://host:port`, for messages. */
  readonly server: string;
  /** The answer's JSON. @throws ApiError for any status from 400 up, and with status 0 when no answer came */
  request(request: ApiRequest): Promise<unknown>;
  /**
   * A GET whose answer is one JSON text per line, such as a watch; resolves when the server has ended it.
   * @param onOpen called when the status line has arrived, before the first line
   * @param onLine called for each line, in order; an error that it throws ends the stream and rejects
   * @throws ApiError as for `request`, and with status 0 when the connection breaks or `signal` fires
   */
  stream(request: ApiRequest, onOpen: () => void, onLine: (line: string) => void): Promise<void>;
  close(): Promise<void>;
}

/** The group, version and plural of a kind at the API server. */
export interface ResourceType {
  /** "" for the core group. */
  readonly group: string;
  readonly version: string;
  /** Lower case. */
  readonly plural: string;
  readonly kind: string;
}

/** Path of all objects of a kind in a namespace. */
export function collectionPath({ group, version, plural }: ResourceType, namespace: string): string {
  const root = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
  return `${root}/namespaces/${encodeURIComponent(namespace)}/${plural}`;
}

/** Path of one object. @param subresource such as `status` */
export function objectPath(type: ResourceType, namespace: string, name: string, subresource?: string): string {
  const path = `${collectionPath(type, namespace)}/${encodeURIComponent(name)}`;
  return subresource === undefined ? path : `${path}/${subresource}`;
}

/** The name of a kind in messages: `pods`, `inferencepools.inference.networking.k8s.io`. */
export function typeName({ group, plural }: ResourceType): string {
  return group === "" ? plural : `${plural}.${group}`;
}

/** The core and workload kinds that are read or written besides Sluice's own. */
export const POD: ResourceType = { group: "", version: "v1", plural: "pods", kind: "Pod" };
export const EVENT: ResourceType = { group: "", version: "v1", plural: "events", kind: "Event" };
export const LEASE: ResourceType = {
  group: "coordination.k8s.io",
  version: "v1",
  plural: "leases",
  kind: "Lease",
};
