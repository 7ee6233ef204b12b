import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type RedisScript, redisScript } from "../../../base/redis/script.ts";

const text = (file: string): string => readFileSync(join(import.meta.dirname, file), "utf8");

/** A script that the store refuses as a whole when its memory is full. */
function adding(file: string): RedisScript {
  return redisScript(`#!lua\n${text("common.lua")}\n${text(file)}`);
}

/** A script that a store with a full memory runs, too: it takes no memory, or leases depend on it. */
function freeing(file: string): RedisScript {
  return redisScript(`#!lua flags=allow-oom\n${text("common.lua")}\n${text(file)}`);
}

/** The scripts of this folder. Arguments and answers are in the head of each file. */
export const ADD_FILE = adding("add-file.lua");
export const ADD_BATCH = adding("add-batch.lua");
export const APPEND = adding("append.lua");
export const INTEND = freeing("intend.lua");
export const PART = freeing("part.lua");
export const REMOVE_FILE = freeing("remove-file.lua");
export const TIDY = freeing("tidy.lua");
export const LOOK = freeing("look.lua");
export const RELEASE = freeing("release.lua");
export const MOVE = freeing("move.lua");
export const WRITE = freeing("write.lua");
export const TOTALS = freeing("totals.lua");
export const EVENT = freeing("event.lua");

export const ALL_SCRIPTS = [
  ...[ADD_FILE, ADD_BATCH, APPEND, INTEND, PART, REMOVE_FILE, TIDY, LOOK, RELEASE, MOVE, WRITE, TOTALS, EVENT],
];
