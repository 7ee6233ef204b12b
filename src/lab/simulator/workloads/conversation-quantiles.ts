import { QuantileFunction } from "./quantile-function.ts";

/*
 * From the conversation trace published with Mooncake (FAST '25; kvcache-ai/Mooncake, FAST25-release/traces/
 * conversation_trace.jsonl: 12,031 requests to Kimi within an hour). The trace names no sessions; a request counts as the next
 * turn of the latest earlier one whose whole blocks of 512 tokens, at least two, its own blocks begin with and whose prompt
 * and answer fit into its prompt. That links 3,682 requests; the first prompts are those of the other 8,349.
 */

/** Tokens of the first prompt of a session, the system prompt included. */
export const FIRST_PROMPT = new QuantileFunction([
  [0, 891],
  [0.05, 898],
  [0.1, 908],
  [0.25, 1501],
  [0.5, 5951],
  [0.75, 14_218],
  [0.9, 26_158],
  [0.95, 37_744],
  [0.99, 86_923],
  [1, 126_195],
]);

/** Tokens that a later prompt adds to the prompt and the answer before it. */
export const NEXT_QUESTION = new QuantileFunction([
  [0, 1],
  [0.05, 6],
  [0.1, 8],
  [0.25, 13],
  [0.5, 39],
  [0.75, 520],
  [0.8, 1282],
  [0.85, 3371],
  [0.9, 4748],
  [0.95, 7720],
  [0.99, 18_870],
  [0.998, 36_333],
  [1, 91_467],
]);

/** Tokens of an answer, of first and later turns alike: they hardly differ. */
export const ANSWER = new QuantileFunction([
  [0, 1],
  [0.05, 10],
  [0.1, 24],
  [0.25, 156],
  [0.5, 350],
  [0.75, 472],
  [0.9, 597],
  [0.95, 698],
  [0.99, 1120],
  [1, 2000],
]);

/** Seconds from the arrival of a turn to that of the next one. */
export const GAP_SECONDS = new QuantileFunction([
  [0, 6],
  [0.05, 33],
  [0.1, 45],
  [0.25, 72],
  [0.5, 135],
  [0.75, 288],
  [0.9, 498],
  [0.95, 624],
  [0.99, 1482],
  [1, 3030],
]);

/**
 * Turns of a session, to be rounded down: the share of sessions with fewer than `value` turns. Of the 2,292 sessions that
 * begin in the first third of the hour with two whole blocks or more, as shorter first prompts cannot be linked.
 */
export const TURNS = new QuantileFunction([
  [0, 1],
  [0.6985, 2],
  [0.8787, 3],
  [0.9324, 4],
  [0.9629, 5],
  [0.976, 6],
  [0.9826, 7],
  [0.9874, 8],
  [0.99, 9],
  [0.9909, 10],
  [0.993, 11],
  [0.9948, 12],
  [0.9952, 14],
  [0.996, 16],
  [0.9978, 18],
  [0.9991, 21],
  [1, 44],
]);
