/** Builds `dist/` for the npm package: Node strips no types below node_modules. */
import { execFileSync } from "node:child_process";
import { copyFileSync, readdirSync, rmSync } from "node:fs";
import { join, sep } from "node:path";

const root = join(import.meta.dirname, "..");
rmSync(join(root, "dist"), { recursive: true, force: true });
execFileSync(join(root, "node_modules", ".bin", "tsc"), ["-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
// Whatever the sources read beside themselves at run time lies beside the built files too.
const assets = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter((name) =>
  /\.(html|css|js|lua)$/.test(name),
);
for (const asset of assets) copyFileSync(join(root, "src", asset), join(root, "dist", asset));
console.log(`dist: built, ${assets.map((name) => name.split(sep).join("/")).join(", ")} copied`);
