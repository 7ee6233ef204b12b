import { type FieldPaths, fieldsV1, pathsIn, spoken } from "./field-paths.ts";
import { type ManagedFields, same } from "./object.ts";
import { Refusal } from "./refusal.ts";

/** Who writes, as `managedFields` tells it. */
export interface Manager {
  readonly manager: string;
  readonly operation: "Apply" | "Update";
  readonly apiVersion: string;
  readonly subresource?: string;
}

/** Who owns which fields of one object. */
export class Owners {
  readonly #entries: { readonly manager: Manager; readonly paths: Set<string>; time: string }[];

  constructor(managedFields: readonly ManagedFields[] | undefined) {
    this.#entries = (managedFields ?? []).map(({ fieldsV1: tree, time, fieldsType: _, ...manager }) => ({
      manager,
      time,
      paths: new Set(pathsIn(tree)),
    }));
  }

  /** What a manager has written: a field belongs to who changed it last, and what is gone to nobody. */
  updated(manager: Manager, before: FieldPaths, after: FieldPaths, time: string): void {
    const changed: string[] = [];
    for (const [path, value] of after) {
      if (!before.has(path) || !same(before.get(path), value)) changed.push(path);
    }
    const removed = [...before.keys()].filter((path) => !after.has(path));
    if (changed.length === 0 && removed.length === 0) return;
    for (const { paths } of this.#entries) for (const path of [...changed, ...removed]) paths.delete(path);
    if (changed.length > 0) {
      const own = this.#entry(manager, time);
      for (const path of changed) own.paths.add(path);
      own.time = time;
    }
  }

  /**
   * Gives a manager the fields that it applies.
   * @param live what there is
   * @param force take fields from others
   * @returns fields that it applied before, does not now, and that nobody else owns
   * @throws Refusal 409 where others own fields that would change
   */
  applied(manager: Manager, config: FieldPaths, live: FieldPaths, force: boolean, time: string): string[] {
    const conflicts = this.#conflicts(manager, config, live);
    if (conflicts.length > 0 && !force) throw conflictsWith(conflicts);
    for (const { path, owner } of conflicts) owner.paths.delete(path);
    const own = this.#entry(manager, time);
    const before = [...own.paths];
    const changed = before.length !== config.size || before.some((path) => !config.has(path));
    own.paths.clear();
    for (const path of config.keys()) own.paths.add(path);
    if (changed) own.time = time;
    const dropped = before.filter((path) => !config.has(path));
    // An item of a list stays as long as somebody owns something in it.
    const owned = (path: string): boolean =>
      this.#entries.some(({ paths }) => [...paths].some((other) => other === path || other.startsWith(`${path}\n`)));
    return dropped.filter((path) => !owned(path));
  }

  toJson(): ManagedFields[] {
    return this.#entries
      .filter(({ paths }) => paths.size > 0)
      .map(({ manager, paths, time }) => {
        const { subresource, ...who } = manager;
        const fields = { ...who, time, fieldsType: "FieldsV1" as const, fieldsV1: fieldsV1(paths) };
        return subresource === undefined ? fields : { ...fields, subresource };
      });
  }

  #entry(manager: Manager, time: string) {
    let found = this.#entries.find((entry) => same({ ...entry.manager }, { ...manager }));
    if (found === undefined) {
      found = { manager, paths: new Set(), time };
      this.#entries.push(found);
    }
    return found;
  }

  #conflicts(manager: Manager, config: FieldPaths, live: FieldPaths) {
    const own = this.#entries.find((entry) => same({ ...entry.manager }, { ...manager }));
    const changed = [...config].filter(([path, value]) => live.has(path) && !same(live.get(path), value));
    return changed.flatMap(([path]) =>
      this.#entries
        .filter((entry) => entry !== own && entry.paths.has(path))
        .map((entry) => ({ path, manager: entry.manager, owner: entry })),
    );
  }
}

function conflictsWith(conflicts: readonly { readonly path: string; readonly manager: Manager }[]): Refusal {
  const causes = conflicts.map(({ path, manager }) => ({
    reason: "FieldManagerConflict",
    message: `conflict with "${manager.manager}"${manager.subresource === undefined ? "" : ` with subresource "${manager.subresource}"`}${
      manager.operation === "Update" ? ` using ${manager.apiVersion}` : ""
    }`,
    field: spoken(path),
  }));
  const count = `${causes.length} conflict${causes.length === 1 ? "" : "s"}`;
  const list = causes.map(({ message, field }) => `${message}: ${field}`).join("; ");
  return new Refusal(409, `Apply failed with ${count}: ${list}`, { details: { causes } });
}
