import { randomBytes } from "node:crypto";
import { parse as parseYaml } from "yaml";
import { admit } from "./admit.ts";
import { bodyOf, fresh, merged, parse, specOf } from "./body.ts";
import { type Answer, type Call, json, shown, type Target } from "./call.ts";
import { establishedStatus, kindOf } from "./crd.ts";
import { deleteObject, finalizersOf } from "./deletion.ts";
import { overlay, ownable, pathsOf, withMetadata, without } from "./field-paths.ts";
import { apiVersionOf, CRD_KIND, resourceOf } from "./kind.ts";
import type { Kinds } from "./kinds.ts";
import { type ApiObject, copyOf, isObject, type Json, type Metadata, same, textOf } from "./object.ts";
import { type Manager, Owners } from "./owners.ts";
import { jsonPatch, mergePatch, strategicPatch } from "./patch.ts";
import { alreadyExists, conflict, invalid, notFound, Refusal } from "./refusal.ts";
import type { Storage } from "./storage.ts";

/** Creates, updates, patches and deletes objects of one storage. */
export class Writes {
  readonly #storage: Storage;
  readonly #kinds: Kinds;
  readonly #now: () => number;

  /** @param now wall clock, milliseconds */
  constructor(storage: Storage, kinds: Kinds, now: () => number) {
    this.#storage = storage;
    this.#kinds = kinds;
    this.#now = now;
  }

  create(target: Target, call: Call): Answer {
    const body = bodyOf(target, call, parse(call));
    const { metadata } = body;
    if (metadata.name === "" && metadata.generateName) metadata.name = metadata.generateName + suffix();
    if (metadata.name === "") {
      const message = "Required value: name or generateName is required";
      throw invalid(target.kind, "", [{ reason: "FieldValueRequired", field: "metadata.name", message }]);
    }
    return this.#create(target, call, body);
  }

  update(target: Target, call: Call): Answer {
    const body = bodyOf(target, call, parse(call));
    const name = target.name!;
    if (body.metadata.name === "") body.metadata.name = name;
    if (body.metadata.name !== name) {
      const why = `the name of the object (${body.metadata.name}) does not match the name on the URL (${name})`;
      throw new Refusal(400, why);
    }
    const old = this.#old(target);
    if (old === undefined) {
      if (target.kind.createOnUpdate && target.subresource === undefined) return this.#create(target, call, body);
      throw notFound(target.kind, name);
    }
    if (!body.metadata.resourceVersion && !target.kind.unconditionalUpdate) {
      const message = "Invalid value: 0: must be specified for an update";
      throw invalid(target.kind, name, [{ reason: "FieldValueInvalid", field: "metadata.resourceVersion", message }]);
    }
    return this.#replace(target, call, old, body);
  }

  patch(target: Target, call: Call): Answer {
    const old = this.#old(target);
    if (call.contentType === "application/apply-patch+yaml") return this.#apply(target, call, old);
    if (old === undefined) throw notFound(target.kind, target.name!);
    const patch = parse(call);
    const patched = (): unknown => {
      switch (call.contentType) {
        case "application/merge-patch+json":
          return mergePatch(old, patch);
        case "application/json-patch+json":
          return jsonPatch(old, patch);
        case "application/strategic-merge-patch+json":
          if (!target.kind.custom) return strategicPatch(withMetadata(target.version.schema), old, patch);
      }
      const types = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
      throw new Refusal(
        415,
        `the body of the request was in an unknown format - accepted media types include: ${types}`,
      );
    };
    return this.#replace(target, call, old, bodyOf(target, call, patched()));
  }

  delete(target: Target, call: Call): Answer {
    const old = this.#old(target);
    if (old === undefined) throw notFound(target.kind, target.name!);
    const options = call.body === "" ? {} : (parse(call) as Json);
    const grace = call.query.get("gracePeriodSeconds");
    const given = grace === null ? options : { gracePeriodSeconds: Number(grace), ...options };
    const left = deleteObject(this.#storage, target.kind, old, given, this.#now());
    if (left.gone && target.kind === CRD_KIND) this.#removeKind(old);
    if (!left.gone || target.kind.kind === "Pod") return json(200, textOf(shown(target, left.object)));
    const { name, uid } = old.metadata;
    const { group, plural } = target.kind;
    const details = { name, ...(group === "" ? {} : { group }), kind: plural, uid };
    return json(200, { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", details });
  }

  deleteAll(target: Target, call: Call, selected: (object: ApiObject) => boolean): Answer {
    const { kind, version, namespace } = target;
    const options = call.body === "" ? {} : (parse(call) as Json);
    const items = this.#storage
      .all(resourceOf(kind), namespace)
      .filter(selected)
      .map((object) => deleteObject(this.#storage, kind, object, options, this.#now()).object);
    const metadata = { resourceVersion: String(this.#storage.revision) };
    return json(200, { kind: `${kind.kind}List`, apiVersion: apiVersionOf(kind.group, version.name), metadata, items });
  }

  #old({ kind, namespace, name }: Target): ApiObject | undefined {
    return this.#storage.get(resourceOf(kind), namespace, name!);
  }

  /** @param owners where they are already known */
  #create(target: Target, call: Call, given: ApiObject, owners?: Owners): Answer {
    const { kind, version, namespace } = target;
    const { name, resourceVersion } = given.metadata;
    if (resourceVersion) throw new Refusal(500, "resourceVersion should not be set on objects to be created");
    if (namespace !== undefined) this.#checkNamespace(target, namespace, name);
    const time = seconds(this.#now());
    const body = fresh(target, given, time);
    const unknown = admit(target, body, undefined, call.query.get("fieldValidation") === "Strict");
    if (this.#storage.get(resourceOf(kind), namespace, name) !== undefined) throw alreadyExists(kind, name);
    const written = owners ?? new Owners(undefined);
    if (owners === undefined) {
      const after = pathsOf(withMetadata(version.schema), ownable(body, false, version.status));
      written.updated(managerOf(target, call, "Update"), new Map(), after, time);
    }
    body.metadata.managedFields = written.toJson();
    const stored = this.#write(target, call, body);
    if (kind === CRD_KIND && !isDry(call)) {
      this.#kinds.set(kindOf(stored));
      this.#storage.write(resourceOf(kind), { ...stored, status: establishedStatus(stored, time) });
    }
    return json(201, textOf(shown(target, stored)), warnings(unknown));
  }

  #replace(target: Target, call: Call, old: ApiObject, body: ApiObject, owners?: Owners): Answer {
    const { kind, version, subresource } = target;
    const { name } = old.metadata;
    const { resourceVersion, uid } = body.metadata;
    if (resourceVersion && resourceVersion !== old.metadata.resourceVersion) throw conflict(kind, name);
    if (uid !== undefined && uid !== old.metadata.uid) {
      const why = `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${old.metadata.uid}`;
      throw conflict(kind, name, why);
    }
    const status = subresource === "status";
    const next = copyOf(status ? { ...old, status: body["status"] } : merged(target, old, body));
    const unknown = admit(target, next, old, call.query.get("fieldValidation") === "Strict");
    const written = owners ?? new Owners(old.metadata.managedFields);
    if (owners === undefined) {
      const schema = withMetadata(version.schema);
      const [before, after] = [old, next].map((each) => pathsOf(schema, ownable(each, status, version.status)));
      written.updated(managerOf(target, call, "Update"), before!, after!, seconds(this.#now()));
    }
    next.metadata.managedFields = written.toJson();
    const answer = (object: ApiObject): Answer => json(200, textOf(shown(target, object)), warnings(unknown));
    if (same(next, old)) return answer(old);
    if (
      !status &&
      (kind.custom || kind.generation) &&
      !same(specOf(old, version.status), specOf(next, version.status))
    ) {
      next.metadata.generation = (old.metadata.generation ?? 1) + 1;
    }
    const { deletionTimestamp, deletionGracePeriodSeconds: grace } = next.metadata;
    if (deletionTimestamp !== undefined && grace === 0 && finalizersOf(next).length === 0) {
      return answer(this.#storage.remove(resourceOf(kind), next));
    }
    const stored = this.#write(target, call, next);
    if (kind === CRD_KIND && !isDry(call)) this.#kinds.set(kindOf(stored));
    return answer(stored);
  }

  /** Server-side apply. */
  #apply(target: Target, call: Call, old: ApiObject | undefined): Answer {
    const { version, subresource, kind } = target;
    if (old === undefined && subresource !== undefined) throw notFound(kind, target.name!);
    if (!call.query.get("fieldManager")) {
      const named = { group: "meta.k8s.io", plural: "patchoptions", kind: "PatchOptions" };
      const message = "Required value: is required for apply patch";
      throw invalid(named, "", [{ reason: "FieldValueRequired", field: "fieldManager", message }]);
    }
    const given: unknown = parseYaml(call.body);
    if (!isObject(given) || given["apiVersion"] === undefined || given["kind"] === undefined) {
      throw new Refusal(400, "an object to apply needs apiVersion and kind");
    }
    const config = bodyOf(target, call, given);
    config.metadata.name ||= target.name!;
    if (config.metadata.managedFields !== undefined) throw new Refusal(400, "metadata.managedFields must be nil");
    const schema = withMetadata(version.schema);
    const status = subresource === "status";
    const part = (object: ApiObject): Json => ownable(object, status, version.status);
    const manager = managerOf(target, call, "Apply");
    const [own, force, time] = [part(config), call.query.get("force") === "true", seconds(this.#now())];
    const paths = pathsOf(schema, own);
    if (old === undefined) {
      const owners = new Owners(undefined);
      owners.applied(manager, paths, new Map(), force, time);
      return this.#create(target, call, config, owners);
    }
    const owners = new Owners(old.metadata.managedFields);
    const dropped = owners.applied(manager, paths, pathsOf(schema, part(old)), force, time);
    let next: unknown = overlay(schema, part(old), own);
    for (const path of dropped) next = without(next, path);
    const { metadata, ...rest } = (next ?? {}) as Json;
    const { resourceVersion = old.metadata.resourceVersion, uid = old.metadata.uid } = config.metadata;
    const identity = { name: old.metadata.name, resourceVersion, uid } as Metadata;
    const body = {
      apiVersion: old.apiVersion!,
      kind: old.kind!,
      ...rest,
      metadata: { ...(metadata as Json), ...identity },
    };
    return this.#replace(target, call, old, body, owners);
  }

  #write({ kind }: Target, call: Call, object: ApiObject): ApiObject {
    return isDry(call) ? object : this.#storage.write(resourceOf(kind), object);
  }

  #checkNamespace({ kind }: Target, namespace: string, name: string): void {
    const room = this.#storage.get("/namespaces", undefined, namespace);
    if (room === undefined) throw notFound({ group: "", plural: "namespaces", kind: "Namespace" }, namespace);
    if (room.metadata.deletionTimestamp === undefined) return;
    const why = `unable to create new content in namespace ${namespace} because it is being terminated`;
    throw new Refusal(403, `${kind.plural} "${name}" is forbidden: ${why}`);
  }

  /** A kind that is taken away takes its objects with it. */
  #removeKind(crd: ApiObject): void {
    const kind = kindOf(crd);
    for (const object of this.#storage.all(resourceOf(kind), undefined)) this.#storage.remove(resourceOf(kind), object);
    this.#kinds.delete(kind);
  }
}

function managerOf({ kind, version, subresource }: Target, call: Call, operation: Manager["operation"]): Manager {
  return {
    manager: call.query.get("fieldManager") || call.userAgent.split("/")[0] || "unknown",
    operation,
    apiVersion: apiVersionOf(kind.group, version.name),
    ...(subresource === undefined ? {} : { subresource }),
  };
}

function isDry(call: Call): boolean {
  return call.query.get("dryRun") === "All";
}

function warnings(unknown: readonly string[]): Record<string, string> | undefined {
  if (unknown.length === 0) return undefined;
  return { warning: unknown.map((path) => `299 - "unknown field \\"${path}\\""`).join(", ") };
}

function seconds(time: number): string {
  return new Date(time).toISOString().replace(/\.\d+Z$/, "Z");
}

function suffix(): string {
  return randomBytes(5).toString("hex").slice(0, 5);
}
