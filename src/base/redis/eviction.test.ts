import { expect, it } from "vitest";
import { evictionPolicy } from "./eviction.ts";

it.each<[string, string | undefined]>([
  ["maxmemory:1048576\r\nmaxmemory_policy:allkeys-lru\r\n", "allkeys-lru"],
  ["maxmemory:1048576\r\nmaxmemory_policy:noeviction\r\n", undefined],
  ["maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", undefined],
  ["", undefined],
])("%j evicts by %j", (memory, policy) => expect(evictionPolicy(memory)).toBe(policy));
