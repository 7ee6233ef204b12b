import { chmod, chown, open, readFile, realpath, rename, stat, unlink } from "node:fs/promises";
import { type Clock, delay } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";

/** Milliseconds between two tries to get the lock, and the number of tries. */
const TRY_AGAIN = 50;
const TRIES = 100;
/** Owner alone; the mode of a file that exists stays, but other users lose their rights. */
const NEW_MODE = 0o600;
const NOT_OTHERS = 0o770;

/**
 * Changes a file so that readers see the old text or the new one, and so that of two commands each sees what the other wrote. A
 * lock file beside it makes the second one wait.
 * @param change gets the text, "" where there is no file; what it throws leaves the file as it is
 * @throws SluiceError KEYS_FILE_BUSY, KEYS_FILE_WRITE
 */
export async function changeFile<T extends { readonly text: string }>(
  path: string,
  clock: Clock,
  change: (text: string) => T,
): Promise<T> {
  // A rename would replace a link by a file, and leave the file behind the link as it was.
  const file = await realpath(path).catch(() => path);
  const lock = `${file}.lock`;
  await take(lock, clock);
  try {
    const before = await readOrNothing(file);
    const changed = change(before.text);
    const next = `${file}.new`;
    try {
      await written(next, changed.text, before);
      await rename(next, file);
    } catch (error) {
      await unlink(next).catch(() => {});
      throw unwritable(path, error);
    }
    return changed;
  } finally {
    await unlink(lock).catch(() => {});
  }
}

interface Before {
  readonly text: string;
  readonly owner: { readonly mode: number; readonly uid: number; readonly gid: number } | undefined;
}

async function readOrNothing(file: string): Promise<Before> {
  try {
    const { mode, uid, gid } = await stat(file);
    return { text: await readFile(file, "utf8"), owner: { mode, uid, gid } };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return { text: "", owner: undefined };
    throw new SluiceError("DOCUMENT_UNREADABLE", `${file} cannot be read: ${messageOf(error)}`);
  }
}

async function take(lock: string, clock: Clock): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      const handle = await open(lock, "wx", NEW_MODE);
      await handle.close();
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw unwritable(lock, error);
      if (tries === TRIES)
        throw new SluiceError(
          "KEYS_FILE_BUSY",
          `the lock ${lock} shows that another command changes the keys file; if no other command runs, remove the lock`,
        );
      await delay(clock, TRY_AGAIN);
    }
  }
}

/** The bytes are on the disk before the rename: a crash leaves a whole file. */
async function written(next: string, text: string, { owner }: Before): Promise<void> {
  await unlink(next).catch(() => {});
  await using handle = await open(next, "wx", NEW_MODE);
  await handle.writeFile(text);
  await handle.sync();
  if (owner === undefined) return;
  await chmod(next, owner.mode & NOT_OTHERS);
  // Only root can give a file away; everyone else is its owner, or gets a file that is their own.
  await chown(next, owner.uid, owner.gid).catch(() => {});
}

function unwritable(path: string, cause: unknown): SluiceError {
  return new SluiceError("KEYS_FILE_WRITE", `${path} cannot be written: ${messageOf(cause)}`, { cause });
}
