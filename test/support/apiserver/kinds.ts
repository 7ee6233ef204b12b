import type { Target } from "./call.ts";
import { apiVersionOf, BUILT_IN, CRD_KIND, type Kind, resourceOf } from "./kind.ts";
import type { Json } from "./object.ts";
import { Refusal } from "./refusal.ts";

/** What a path under `/api` or `/apis` asks for. */
export interface ApiPath {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
}

/** Takes a path apart; undefined = it names no resource. */
export function apiPath(path: string): ApiPath | undefined {
  let parts: string[];
  try {
    parts = path
      .split("/")
      .filter((part) => part !== "")
      .map(decodeURIComponent);
  } catch {
    return undefined;
  }
  const core = parts[0] === "api";
  if (!core && parts[0] !== "apis") return undefined;
  const [group, version, ...rest] = core ? ["", ...parts.slice(1)] : parts.slice(1);
  if (version === undefined || rest.length === 0) return undefined;
  // `/namespaces/a` is the namespace itself, `/namespaces/a/pods` what is in it.
  const inside = rest[0] === "namespaces" && rest.length > 2 && !["status", "finalize"].includes(rest[2]!);
  const [plural, name, subresource] = inside ? rest.slice(2) : rest;
  return { group: group!, version, plural: plural!, namespace: inside ? rest[1] : undefined, name, subresource };
}

/** The kinds that are served, built in and added. */
export class Kinds {
  readonly #kinds = new Map<string, Kind>([...BUILT_IN, CRD_KIND].map((kind) => [resourceOf(kind), kind]));

  set(kind: Kind): void {
    this.#kinds.set(resourceOf(kind), kind);
  }

  delete(kind: Pick<Kind, "group" | "plural">): void {
    this.#kinds.delete(resourceOf(kind));
  }

  all(): Kind[] {
    return [...this.#kinds.values()];
  }

  /** @throws Refusal 404, plain where not even the group is known */
  target(path: ApiPath): Target {
    const kind = this.#kinds.get(resourceOf(path));
    const version = kind?.versions.find(({ name }) => name === path.version);
    if (kind === undefined || version === undefined) {
      const known = this.all().some((other) => !other.custom && other.group === path.group);
      if (known) throw new Refusal(404, "the server could not find the requested resource", { details: {} });
      throw new NoSuchPath();
    }
    const status = path.subresource === "status" && version.status;
    if (path.subresource !== undefined && !status) throw new NoSuchPath();
    const { namespace, name, subresource } = path;
    return { kind, version, namespace, name, subresource };
  }

  /** The discovery document at a path; undefined = there is none. */
  discovery(path: string): Json | undefined {
    const parts = path.split("/").filter((part) => part !== "");
    if (path === "/api") return { kind: "APIVersions", versions: ["v1"], serverAddressByClientCIDRs: [] };
    const groups = new Set(
      this.all()
        .map(({ group }) => group)
        .concat("authentication.k8s.io", "authorization.k8s.io"),
    );
    groups.delete("");
    if (path === "/apis")
      return { kind: "APIGroupList", apiVersion: "v1", groups: [...groups].map((group) => this.#group(group)) };
    if (parts[0] === "apis" && parts.length === 2 && groups.has(parts[1]!)) {
      return { kind: "APIGroup", apiVersion: "v1", ...this.#group(parts[1]!) };
    }
    const [group, version] = parts[0] === "api" && parts.length === 2 ? ["", parts[1]!] : parts.slice(1);
    if (group === undefined || version === undefined || parts.length > 3) return undefined;
    const resources = this.#resources(group, version);
    if (resources.length === 0) return undefined;
    return { kind: "APIResourceList", apiVersion: "v1", groupVersion: apiVersionOf(group, version), resources };
  }

  #group(name: string): Json {
    const served = this.all().filter(({ group }) => group === name);
    const found = [...new Set(served.flatMap(({ versions }) => versions.map((version) => version.name)))];
    const versions = (found.length === 0 ? ["v1"] : found).map((version) => ({
      groupVersion: apiVersionOf(name, version),
      version,
    }));
    return { name, versions, preferredVersion: versions[0] };
  }

  #resources(group: string, version: string): Json[] {
    const review = { "authentication.k8s.io": "TokenReview", "authorization.k8s.io": "SubjectAccessReview" }[group];
    if (review !== undefined && version === "v1") {
      const name = `${review.toLowerCase()}s`;
      return [{ name, singularName: review.toLowerCase(), namespaced: false, kind: review, verbs: ["create"] }];
    }
    return this.all().flatMap((kind) => {
      const found = kind.group === group ? kind.versions.find(({ name }) => name === version) : undefined;
      if (found === undefined) return [];
      const shared = { namespaced: kind.namespaced, kind: kind.kind };
      const verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
      const names = kind.shortNames.length === 0 ? {} : { shortNames: kind.shortNames };
      const resource = { name: kind.plural, singularName: kind.singular, ...shared, verbs, ...names };
      const status = { name: `${kind.plural}/status`, singularName: "", ...shared, verbs: ["get", "patch", "update"] };
      return found.status ? [resource, status] : [resource];
    });
  }
}

/** The answer to a path that nothing is at: plain text, not a `Status`. */
export class NoSuchPath extends Error {}
