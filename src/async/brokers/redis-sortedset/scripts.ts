import { type RedisScript, readScript } from "../../../base/redis/script.ts";

/** The scripts of this folder. Keys, arguments and answers are in the head of each file. */
const script = (...files: readonly string[]): RedisScript => readScript(import.meta.dirname, ...files);

export const CLAIM = script("claim.lua");
export const SETTLE = script("store-state.lua", "settle.lua");
export const RENEW = script("store-state.lua", "renew.lua");
export const REINSTATE = script("store-state.lua", "reinstate.lua");
export const RUN_OUT = script("run-out.lua");
export const ADOPT = script("adopt.lua");
export const DUE = script("due.lua");
export const MOVE = script("move.lua");
export const CANCEL = script("cancel.lua");
export const BACKLOG = script("backlog.lua");
export const PEEK = script("peek.lua");
export const REVIVE = script("revive.lua");
export const HELD = script("held.lua");
export const RELEASE = script("release.lua");
export const READ_RESULTS = script("read-results.lua");
export const REMOVE_RESULTS = script("remove-results.lua");

/** Answers of `SETTLE` per settlement; any text is the server's reason for a failure. */
export const FENCED = 0;
export const SETTLED = 1;
export const DEAD_LETTERED = 2;
/** The store has lost the claim, and nothing was written: the claim must be put back first. */
export const FORGOTTEN = 3;
/** Nothing was written: the message has its terminal result. */
export const ANSWERED = 4;

/** Answers of `REINSTATE` per claim; any text is the server's reason for a failure. */
export const TAKEN = 0;
export const REINSTATED = 1;
export const HAS_ANSWER = 2;
