import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { poll } from "../poll.ts";
import { type ApiObject, isObject, type Json } from "./object.ts";

/** What came back. */
export interface ApiAnswer {
  readonly status: number;
  /** Parsed JSON; text where it is none. */
  readonly body: unknown;
  readonly headers: Readonly<Record<string, string>>;
}

export interface RequestOptions {
  /** Default: the admin's; null = none. */
  readonly token?: string | null;
  /** Default `application/json`. */
  readonly contentType?: string;
}

/** Sends one request as somebody. */
export type Send = (method: string, path: string, body?: unknown, options?: RequestOptions) => Promise<ApiAnswer>;

/** What tests do to a server, real or not, by requests of an admin. */
export class Admin {
  readonly #send: Send;
  /** Path of a kind's collection by apiVersion and kind. */
  readonly #plurals = new Map<
    string,
    { readonly plural: string; readonly namespaced: boolean; readonly status: boolean }
  >();

  constructor(send: Send) {
    this.#send = send;
  }

  /** The object at a path or of a name; undefined = there is none. */
  async get(path: string): Promise<ApiObject | undefined> {
    const { status, body } = await this.#send("GET", path);
    if (status === 404) return undefined;
    return expectOk("GET", path, status, body);
  }

  /** The path of an object. */
  async path(object: ApiObject): Promise<string> {
    const { apiVersion, kind, metadata } = object;
    if (apiVersion === undefined || kind === undefined) throw new Error("the object needs apiVersion and kind");
    const { plural, namespaced } = await this.#resource(apiVersion, kind);
    const root = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    const where = namespaced ? `/namespaces/${metadata.namespace ?? "default"}` : "";
    return `${root}${where}/${plural}/${metadata.name}`;
  }

  /**
   * Makes an object or replaces the one there is, its status included where the object has one; makes its namespace where
   * that is missing, and gives a pod the container that it must have.
   * @returns as the server has it in the end
   */
  async put(given: object): Promise<ApiObject> {
    const object = structuredClone(given) as ApiObject;
    if (object.kind === "Pod" && !isObject(object["spec"])) {
      object["spec"] = { containers: [{ name: "server", image: "server" }] };
    }
    const path = await this.path(object);
    const { status: hasStatus } = await this.#resource(object.apiVersion!, object.kind!);
    let kept = await this.#putMain(path, object);
    if (hasStatus && object["status"] !== undefined) {
      const { resourceVersion: _, ...metadata } = kept.metadata;
      const body = {
        ...kept,
        metadata: { ...metadata, resourceVersion: kept.metadata.resourceVersion },
        status: object["status"],
      };
      const answer = await this.#send("PUT", `${path}/status`, body);
      kept = expectOk("PUT", `${path}/status`, answer.status, answer.body);
    }
    return kept;
  }

  /** Deletes an object, or what is at a path; at once, whatever the grace period. */
  async delete(target: string | object): Promise<void> {
    const path = typeof target === "string" ? target : await this.path(target as ApiObject);
    const { status, body } = await this.#send("DELETE", path, { gracePeriodSeconds: 0 });
    if (status !== 404) expectOk("DELETE", path, status, body);
  }

  /** Puts every object in the YAML files of a folder and waits until the kinds among them are served. */
  async installCrds(folder: string): Promise<void> {
    const files = readdirSync(folder).filter((file) => /\.ya?ml$/.test(file));
    for (const file of files.sort()) {
      for (const document of parseAllDocuments(readFileSync(join(folder, file), "utf8"))) {
        const object = document.toJS() as ApiObject | null;
        if (object !== null) await this.put(object);
      }
    }
  }

  async #putMain(path: string, object: ApiObject): Promise<ApiObject> {
    const collection = path.slice(0, path.lastIndexOf("/"));
    const old = await this.get(path);
    if (old !== undefined) {
      // What the server has put in place stays: most of a pod cannot be changed once it is there.
      const spec = object.kind === "Pod" ? { spec: old["spec"] } : {};
      const metadata = { ...object.metadata, resourceVersion: old.metadata.resourceVersion };
      const { status, body } = await this.#send("PUT", path, { ...object, ...spec, metadata });
      return expectOk("PUT", path, status, body);
    }
    let answer = await this.#send("POST", collection, object);
    const missing =
      answer.status === 404 && isObject(answer.body)
        ? /^namespaces "(.+)" not found/.exec(String(answer.body["message"]))
        : null;
    if (missing !== null) {
      await this.#send("POST", "/api/v1/namespaces", {
        apiVersion: "v1",
        kind: "Namespace",
        metadata: { name: missing[1] },
      });
      answer = await this.#send("POST", collection, object);
    }
    const made = expectOk("POST", collection, answer.status, answer.body);
    if (object.kind === "CustomResourceDefinition") await this.#established(path, object);
    return made;
  }

  async #established(path: string, crd: ApiObject): Promise<void> {
    await poll(`${crd.metadata.name} to be served`, async () => {
      const object = await this.get(path);
      const status = isObject(object?.["status"]) ? object["status"] : {};
      const conditions = Array.isArray(status["conditions"]) ? (status["conditions"] as Json[]) : [];
      if (!conditions.some((condition) => condition["type"] === "Established" && condition["status"] === "True"))
        return false;
      const spec = crd["spec"] as {
        group: string;
        versions: { name: string; served: boolean }[];
        names: { kind: string };
      };
      const version = spec.versions.find(({ served }) => served);
      return (
        version === undefined || (await this.#resource(`${spec.group}/${version.name}`, spec.names.kind)) !== undefined
      );
    });
  }

  async #resource(apiVersion: string, kind: string) {
    const known = this.#plurals.get(`${apiVersion}/${kind}`);
    if (known !== undefined) return known;
    const path = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    const { body } = await this.#send("GET", path);
    const listed = isObject(body) ? body["resources"] : undefined;
    const resources = (Array.isArray(listed) ? listed : []) as { name: string; kind: string; namespaced: boolean }[];
    const found = resources.find((resource) => resource.kind === kind && !resource.name.includes("/"));
    if (found === undefined) throw new Error(`the server does not serve ${kind} of ${apiVersion}`);
    const status = resources.some(({ name }) => name === `${found.name}/status`);
    const entry = { plural: found.name, namespaced: found.namespaced, status };
    this.#plurals.set(`${apiVersion}/${kind}`, entry);
    return entry;
  }
}

function expectOk(method: string, path: string, status: number, body: unknown): ApiObject {
  if (status < 300) return body as ApiObject;
  throw new Error(`${method} ${path}: ${status}: ${isObject(body) ? String(body["message"]) : String(body)}`);
}
