import { ErrorReply } from "@redis/client";
import { messageOf, SluiceError } from "../inference/errors.ts";

/** The server's refusal of one command; a repetition gets the same refusal. */
export class RedisReplyError extends SluiceError {
  constructor(server: string, command: string, reply: string) {
    super("REDIS_REFUSED", `Redis at ${server} refuses ${command}: ${reply}`);
  }

  /** Whether a key has another type than the command needs. */
  get wrongType(): boolean {
    return this.message.includes("WRONGTYPE");
  }
}

/** Refusals that end when the server, its memory, its replicas or its access list is mended. */
const TRANSIENT =
  /\b(LOADING|BUSY|OOM|READONLY|MASTERDOWN|MISCONF|NOREPLICAS|CLUSTERDOWN|TRYAGAIN|UNKILLABLE|NOAUTH|WRONGPASS|NOPERM)\b/;

/** The error for callers: the broker is away, or this command was refused. */
export function brokerError(server: string, command: string, error: unknown): SluiceError {
  if (error instanceof SluiceError) return error;
  const text = messageOf(error);
  if (!(error instanceof ErrorReply)) return new AnswerLost(server, text, error);
  if (!TRANSIENT.test(text)) return new RedisReplyError(server, command, text);
  return new SluiceError("BROKER_UNAVAILABLE", `Redis at ${server} does not take ${command} now: ${text}`);
}

/** The connection broke before the answer: the server may or may not have run the command. */
export class AnswerLost extends SluiceError {
  constructor(server: string, problem: string, cause: unknown) {
    super("BROKER_UNAVAILABLE", `Redis at ${server} cannot be used: ${problem}`, { cause });
  }
}

/** The error while there is no connection. @param server `host:port` @param problem the reason, without an end mark */
export function unavailable(server: string, problem: string): SluiceError {
  return new SluiceError("BROKER_UNAVAILABLE", `Redis at ${server} cannot be used: ${problem}`);
}
