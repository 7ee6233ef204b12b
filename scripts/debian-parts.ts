import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { onPath, PARTS, PartMissing, run } from "./part-cache.ts";

/**
 * Unpacks a Debian package and what it depends on and this machine lacks into the cache: needs no root, starts nothing.
 * @param program path of the program inside the package
 * @returns the path of a script that runs it with its libraries
 */
export function unpackDebian(name: string, program: string): string {
  const home = join(PARTS, name);
  const script = join(home, "run");
  if (existsSync(script)) return script;
  if (onPath("apt-get") === undefined || onPath("dpkg-deb") === undefined)
    throw new PartMissing(`${name} is not on the PATH and this machine has no apt; install it by hand`);
  mkdirSync(PARTS, { recursive: true });
  const scratch = mkdtempSync(join(PARTS, `${name}-`));
  try {
    for (const folder of ["lists/partial", "archives/partial", "root"])
      mkdirSync(join(scratch, folder), { recursive: true });
    const options = [
      ...["-o", `Dir::State::lists=${join(scratch, "lists")}`, "-o", `Dir::Cache=${scratch}`],
      ...["-o", "APT::Sandbox::User=root", "-qq"],
    ];
    run("apt-get", [...options, "update"]);
    const plan = run("apt-get", [...options, "-s", "install", "--no-install-recommends", name]);
    const packages = [...plan.matchAll(/^Inst (\S+)/gm)].map((match) => match[1]!);
    run("apt-get", [...options, "download", ...packages], scratch);
    for (const file of readdirSync(scratch).filter((entry) => entry.endsWith(".deb")))
      run("dpkg-deb", ["-x", file, "root"], scratch);
    rmSync(home, { recursive: true, force: true });
    renameSync(join(scratch, "root"), home);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  const shared = join(home, "usr", "lib");
  const libraries = (existsSync(shared) ? readdirSync(shared) : [])
    .filter((folder) => folder.includes("-linux-"))
    .map((folder) => join(shared, folder));
  const binary = join(home, program);
  writeFileSync(script, `#!/bin/sh\nLD_LIBRARY_PATH='${libraries.join(":")}' exec '${binary}' "$@"\n`, { mode: 0o755 });
  return script;
}

let listsAreFresh = false;

/** @throws PartMissing on a machine without apt */
export function needApt(name: string): void {
  if (onPath("apt-get") === undefined)
    throw new PartMissing(`${name} is not on the PATH and this machine has no apt; install it by hand`);
}

/** Once for each process. */
export function refreshLists(): void {
  if (listsAreFresh) return;
  run("apt-get", ["update", "-qq"]);
  listsAreFresh = true;
}

/** Installs a package on this machine. @throws PartMissing */
export function aptInstall(name: string): void {
  needApt(name);
  refreshLists();
  run("apt-get", ["install", "-y", "-qq", "--no-install-recommends", name]);
}
