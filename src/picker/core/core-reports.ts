import type { Clock } from "../../base/clock/clock.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import type { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { BudgetWatch } from "../exchange/budget-watch.ts";
import type { ByteBudget } from "../exchange/byte-budget.ts";
import { missingReason } from "../scheduling/unprepared.ts";

/** Ends bodies that stall while memory is short, and logs it. Logs a budget that does not move. @param limited for lines by clients */
export function watchBudget(budget: ByteBudget, clock: Clock, log: Logger, limited: RateLimitedLog): void {
  new BudgetWatch(budget, clock, {
    letGo: (holder) =>
      limited.log(
        "warn",
        "body-stalled",
        { ...holder },
        "a request body stalled while memory is short; Sluice answered 408",
      ),
    stuck: (report) =>
      log.error(
        { ...report },
        "request bodies wait for memory, and the bodies that hold the memory make no progress; see holders",
      ),
    moving: (milliseconds) => log.info({ milliseconds }, "no request body waits for memory any more"),
  });
}

/** Shows the limits of the byte budget. @returns a function that brings the figures up to date */
export function showBudget(metrics: Metrics, budget: ByteBudget): () => void {
  const { limit, reserve } = budget.settings;
  metrics.bodyBudgetLimit.with("main").set(limit);
  metrics.bodyBudgetLimit.with("small").set(reserve);
  const buffered = metrics.bufferedBytes.with();
  const main = metrics.bodyBudgetBytes.with("main");
  const small = metrics.bodyBudgetBytes.with("small");
  const paused = metrics.bodyBudgetPaused.with();
  return () => {
    buffered.set(budget.used);
    main.set(budget.mainUsed);
    small.set(budget.reserveUsed);
    paused.set(budget.paused);
  };
}

/** Returns a function that counts and logs a producer which prepared nothing for a request. */
export function reportUnprepared(
  metrics: Metrics,
  log: RateLimitedLog,
): (producer: { readonly name: string; readonly type: string }, error: unknown) => void {
  return ({ name, type }, error) => {
    metrics.preparationsMissedTotal.with(type, name, missingReason(error)).inc();
    log.log(
      "error",
      `prepare ${name}`,
      { err: error, plugin: name },
      "a producer gave no data for a request; the request continued without this data",
    );
  };
}
