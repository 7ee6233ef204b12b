import { ErrorReply } from "@redis/client";
import { describe, expect, it } from "vitest";
import { brokerError, RedisReplyError } from "./reply-error.ts";

const of = (text: string) => brokerError("broker:6379", "EVALSHA", new ErrorReply(text));

describe("brokerError", () => {
  it.each([
    "LOADING Redis is loading the dataset in memory",
    "OOM command not allowed when used memory > 'maxmemory'. script: 0a, on @user_script:1.",
    "ERR Error running script (call to f_0a): @user_script:1: -READONLY You can't write against a read only replica.",
    "NOAUTH Authentication required.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
  ])("%s ends when the server is mended: the broker is away", (text) => {
    expect(of(text)).toMatchObject({ code: "BROKER_UNAVAILABLE", message: expect.stringContaining("broker:6379") });
  });

  it("a key of another type is a refusal, whatever Redis wraps around it", () => {
    for (const text of ["WRONGTYPE Operation against a key", "ERR Error running script: WRONGTYPE Operation"]) {
      const error = of(text);
      expect(error).toBeInstanceOf(RedisReplyError);
      expect(error).toMatchObject({ code: "REDIS_REFUSED", wrongType: true });
    }
    expect(of("ERR unknown command 'EVALSHA'")).toMatchObject({ code: "REDIS_REFUSED", wrongType: false });
  });

  it("anything that is no answer means that the server is away; what is known already stays", () => {
    const away = brokerError("broker:6379", "PING", new Error("Socket closed unexpectedly"));
    expect(away).toMatchObject({
      code: "BROKER_UNAVAILABLE",
      message: "Redis at broker:6379 cannot be used: Socket closed unexpectedly",
    });
    expect(brokerError("broker:6379", "PING", away)).toBe(away);
  });
});
