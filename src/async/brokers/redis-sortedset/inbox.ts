import { createHash } from "node:crypto";
import { INBOX_BYTES, type ResultInbox } from "../queue-client.ts";
import type { Redis } from "../redis/connection.ts";
import { redisScript } from "../redis/script.ts";

/** The oldest entries of a list (its right end), until they are `bytes`. KEYS: the list. ARGV: how many, bytes. */
const READ = redisScript(`
local found, bytes = {}, tonumber(ARGV[2])
for i = 1, ARGV[1] do
  local text = redis.call('LINDEX', KEYS[1], -i)
  if not text then break end
  found[i] = text
  bytes = bytes - #text
  if bytes <= 0 then break end
end
return found
`);

/** Removes the oldest entries as long as they are those whose SHA-1 is given. KEYS: the list. ARGV: the sums. */
const REMOVE = redisScript(`
for i, sum in ipairs(ARGV) do
  local text = redis.call('LINDEX', KEYS[1], -1)
  if not text or redis.sha1hex(text) ~= sum then return i - 1 end
  redis.call('RPOP', KEYS[1])
end
return #ARGV
`);

/** A list of results with one consumer: new ones come in at the left, so that the right end is this consumer's alone. */
export class ListInbox implements ResultInbox {
  readonly #redis: Redis;
  readonly #key: string;
  #last: readonly string[] = [];

  constructor(redis: Redis, key: string) {
    this.#redis = redis;
    this.#key = key;
  }

  async read(count: number): Promise<readonly string[]> {
    const found = await this.#redis.run(READ, [this.#key], [String(count), String(INBOX_BYTES)]);
    this.#last = found as readonly string[];
    return this.#last;
  }

  async remove(): Promise<void> {
    if (this.#last.length === 0) return;
    const sums = this.#last.map((text) => createHash("sha1").update(text).digest("hex"));
    await this.#redis.run(REMOVE, [this.#key], sums);
    this.#last = [];
  }
}
