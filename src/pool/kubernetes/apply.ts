import { type ApiClient, objectPath, type ResourceType } from "./api-client.ts";
import { ApiError } from "./api-error.ts";

/** Fields of the apply belong to others; code as of any `ApiError`, status 409. */
export class ApplyConflictError extends ApiError {
  /** Names of the managers that own one of the fields, each once. */
  readonly managers: readonly string[];

  constructor(error: ApiError, managers: readonly string[]) {
    super(error.message, error, { cause: error });
    this.managers = managers;
  }
}

/**
 * Server-side apply of an object's status. The given fields become ours; fields of ours that are not given are removed.
 * @param fieldManager the owner of the fields; at most 128 printable characters
 * @param object at least `{ status }`; kind and name are filled in
 * @param options.force true takes fields over from other managers
 * @returns the object as the server has it now
 * @throws ApplyConflictError without `force`; ApiError for any other error: 404 when the object is gone
 */
export async function applyStatus(
  api: ApiClient,
  type: ResourceType,
  namespace: string,
  name: string,
  fieldManager: string,
  object: Readonly<Record<string, unknown>>,
  { force }: { readonly force: boolean },
): Promise<unknown> {
  const apiVersion = type.group === "" ? type.version : `${type.group}/${type.version}`;
  try {
    return await api.request({
      method: "PATCH",
      path: objectPath(type, namespace, name, "status"),
      query: { fieldManager, force },
      contentType: "application/apply-patch+yaml",
      body: { apiVersion, kind: type.kind, metadata: { namespace, name }, ...object },
    });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 409) throw error;
    const managers = error.causes.map(({ message }) => /conflict with "((?:[^"\\]|\\.)*)"/.exec(message)?.[1]);
    throw new ApplyConflictError(error, [...new Set(managers.filter((manager) => manager !== undefined))]);
  }
}
