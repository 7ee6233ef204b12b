import type { DatabaseSync } from "node:sqlite";
import { SluiceError } from "../../../base/inference/errors.ts";

/** `application_id` of queue files: "SLUQ". */
const APPLICATION = 0x534c5551;
/** `user_version` of the schema below. */
const VERSION = 1;

/** The state of a row of `messages`: the values of `state`. */
export const WAITING = 0;
export const CLAIMED = 1;
export const PARKED = 2;

// `messages` is small and changes often. `entries` holds the envelopes as they were written and never changes. `until` is the
// end of the lease or the time when a retry is due, milliseconds. `retries`, `labels` and `lost` overrule the envelope.
// Sequence numbers are never used again (AUTOINCREMENT), so that number and delivery name one delivery for ever.
// Triggers keep the counts: changes to the file by hand cannot make them wrong, and no claim counts rows.
const SCHEMA = `
CREATE TABLE store (id TEXT NOT NULL) STRICT;
CREATE TABLE queues (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  waiting INTEGER NOT NULL DEFAULT 0,
  claimed INTEGER NOT NULL DEFAULT 0,
  parked INTEGER NOT NULL DEFAULT 0,
  dead INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE messages (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  queue INTEGER NOT NULL,
  state INTEGER NOT NULL DEFAULT ${WAITING},
  score REAL NOT NULL,
  until REAL NOT NULL DEFAULT 0,
  ttl REAL NOT NULL DEFAULT 0,
  deliveries INTEGER NOT NULL DEFAULT 0,
  lost INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  published REAL NOT NULL,
  retries INTEGER,
  labels TEXT,
  request TEXT NOT NULL
) STRICT;
CREATE INDEX messages_waiting ON messages (queue, score) WHERE state = ${WAITING};
CREATE INDEX messages_claimed ON messages (queue, until) WHERE state = ${CLAIMED};
CREATE INDEX messages_parked ON messages (queue, until) WHERE state = ${PARKED};
CREATE INDEX messages_request ON messages (request);
CREATE TABLE entries (seq INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
CREATE TABLE results (seq INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, body TEXT NOT NULL) STRICT;
CREATE INDEX results_queue ON results (queue);
CREATE TABLE dead (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  queue INTEGER NOT NULL,
  entry TEXT NOT NULL,
  reason TEXT NOT NULL,
  at REAL NOT NULL
) STRICT;
CREATE INDEX dead_queue ON dead (queue);
CREATE TRIGGER messages_added AFTER INSERT ON messages BEGIN
  UPDATE queues SET
    waiting = waiting + (NEW.state = ${WAITING}),
    claimed = claimed + (NEW.state = ${CLAIMED}),
    parked = parked + (NEW.state = ${PARKED})
  WHERE id = NEW.queue;
END;
CREATE TRIGGER messages_changed AFTER UPDATE OF state ON messages WHEN NEW.state <> OLD.state BEGIN
  UPDATE queues SET
    waiting = waiting + (NEW.state = ${WAITING}) - (OLD.state = ${WAITING}),
    claimed = claimed + (NEW.state = ${CLAIMED}) - (OLD.state = ${CLAIMED}),
    parked = parked + (NEW.state = ${PARKED}) - (OLD.state = ${PARKED})
  WHERE id = NEW.queue;
END;
CREATE TRIGGER messages_removed AFTER DELETE ON messages BEGIN
  UPDATE queues SET
    waiting = waiting - (OLD.state = ${WAITING}),
    claimed = claimed - (OLD.state = ${CLAIMED}),
    parked = parked - (OLD.state = ${PARKED})
  WHERE id = OLD.queue;
  DELETE FROM entries WHERE seq = OLD.seq;
END;
CREATE TRIGGER dead_added AFTER INSERT ON dead BEGIN
  UPDATE queues SET dead = dead + 1 WHERE id = NEW.queue;
END;
CREATE TRIGGER dead_removed AFTER DELETE ON dead BEGIN
  UPDATE queues SET dead = dead - 1 WHERE id = OLD.queue;
END;
`;

/**
 * Makes an empty file a queue file, or checks that it is one. A file of another program is not changed.
 * @param newId names the file if it is new
 * @returns the name that the file got when it was created
 * @throws SluiceError QUEUE_FILE_FOREIGN, QUEUE_FILE_NEWER; errors of SQLite
 */
export function prepareSchema(db: DatabaseSync, path: string, newId: string): string {
  const fresh = isFresh(db, path);
  // WAL only now: it would change a foreign file.
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY");
  if (fresh) create(db, path, newId);
  return String(db.prepare("SELECT id FROM store").get()?.["id"]);
}

function create(db: DatabaseSync, path: string, newId: string): void {
  db.exec("BEGIN IMMEDIATE");
  // Another process may have been quicker.
  if (isFresh(db, path)) {
    db.exec(SCHEMA);
    db.prepare("INSERT INTO store (id) VALUES (?)").run(newId);
    db.exec(`PRAGMA application_id = ${APPLICATION}; PRAGMA user_version = ${VERSION}`);
  }
  db.exec("COMMIT");
}

/** @returns whether the file is empty */
function isFresh(db: DatabaseSync, path: string): boolean {
  const number = (pragma: string): number => Number(Object.values(db.prepare(`PRAGMA ${pragma}`).get() ?? {})[0]);
  const application = number("application_id");
  const version = number("user_version");
  if (application === 0 && version === 0 && number("schema_version") === 0) return true;
  if (application !== APPLICATION)
    throw new SluiceError(
      "QUEUE_FILE_FOREIGN",
      `queue file ${path} is a database of another program (application_id ${application}): name another file`,
    );
  if (version > VERSION)
    throw new SluiceError(
      "QUEUE_FILE_NEWER",
      `queue file ${path} has schema version ${version}, this version of sluice reads up to ${VERSION}: use the newer program, or another file`,
    );
  return false;
}
