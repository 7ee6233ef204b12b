import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach } from "vitest";
import { batchesCases } from "../../../test/support/batch-api/batches.cases.ts";
import { BatchStore } from "./batch-store.ts";
import { BatchFolder } from "./folder.ts";
import { FolderBatches } from "./folder-batches.ts";

const folders: string[] = [];

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

batchesCases(async () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-folder-batches-"));
  folders.push(folder);
  return new FolderBatches(new BatchStore(new BatchFolder(folder), { notifies: true }));
});
